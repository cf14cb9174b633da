"""Compression of models: a checkpoint in, a smaller checkpoint out."""
