"""The gRPC server of a process: sockets, interceptors, health, and how it stops."""
