"""Ray Serve against our own server, on one machine."""
