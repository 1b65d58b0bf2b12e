"""What is built on the tables of frames: following objects."""
