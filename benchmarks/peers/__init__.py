"""Compares the same ONNX model behind our server and behind other model servers, all called by the Open Inference Protocol."""
