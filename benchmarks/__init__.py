"""Speed against peers, side by side, in one run: `make bench`, or `python -m benchmarks NAME ...`."""

import os

# As `bertscope serve` does, before anything imports PyTorch: its threads must not take the cores while ONNX Runtime's turn is.
os.environ.setdefault("GOMP_SPINCOUNT", "20000")
