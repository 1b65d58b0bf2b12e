"""Pictures and videos of what was found."""
