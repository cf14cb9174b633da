"""The questions: pure functions over tensors and arrays, without grpc and without protobuf."""
