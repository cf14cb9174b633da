"""Compresses models with `compress_model`."""
