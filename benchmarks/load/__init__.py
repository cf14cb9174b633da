"""What is answered, and how fast, when calls arrive faster than they can be: `python -m benchmarks load`."""
