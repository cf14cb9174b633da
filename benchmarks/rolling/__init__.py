"""Restarts two servers one after the other while callers use them, and counts the calls that fail."""
