"""What is built on segmented frames: following objects."""
