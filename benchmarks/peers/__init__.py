"""The same ONNX model behind us and behind other model servers, all asked through the Open Inference Protocol."""
