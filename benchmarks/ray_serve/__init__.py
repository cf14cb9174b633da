"""Compares Ray Serve with our own server, on one machine."""
