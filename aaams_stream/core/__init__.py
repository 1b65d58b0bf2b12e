"""The method: arrays in, arrays out. Knows no file, no codec, no thread and no process."""
