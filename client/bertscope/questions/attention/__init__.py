"""Requests, receives and shows attention maps."""
