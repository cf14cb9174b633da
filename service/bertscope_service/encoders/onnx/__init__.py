"""Encoders that run in ONNX Runtime."""
