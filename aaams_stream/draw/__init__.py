"""Pictures and films of what was found."""
