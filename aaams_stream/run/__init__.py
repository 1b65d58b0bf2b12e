"""A source to a volume, on threads."""
