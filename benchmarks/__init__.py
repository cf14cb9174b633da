"""Measures speed against peers, side by side, in one run: `make bench`, or `python -m benchmarks NAME ...`."""

import os

# As `bertscope serve` does, before PyTorch is imported: its threads must not spin on cores that ONNX Runtime needs.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
