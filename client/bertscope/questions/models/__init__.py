"""Lists, loads and unloads models."""
