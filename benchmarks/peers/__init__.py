"""Compares the words for a mask behind our server and behind Triton."""
