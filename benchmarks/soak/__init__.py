"""Mixed calls for a long time, with every answer checked and memory watched: `python -m benchmarks soak`."""
