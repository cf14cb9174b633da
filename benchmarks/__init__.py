"""Speed against peers, side by side, in one run: `make bench`, or `python -m benchmarks NAME ...`."""
