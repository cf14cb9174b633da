"""The questions that the service answers: pure functions over tensors and arrays, without grpc and without protobuf."""
