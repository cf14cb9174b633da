"""One module per gRPC service: parse, run, render."""
