"""Several servers: with a part of the cores each, on Ray Serve, killed, and restarted under callers."""
