"""Checkpoints as ONNX graphs: traced, quantised and written."""
