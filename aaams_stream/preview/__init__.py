"""The live page and the live window."""
