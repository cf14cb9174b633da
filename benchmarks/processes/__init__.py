"""Measures one server process against several on the same device: `python -m benchmarks processes`."""
