"""Measures goodput and latency when calls arrive faster than they can be answered: `python -m benchmarks load`."""
