"""Runs mixed calls for a long time, checks every answer and watches memory: `python -m benchmarks soak`."""
