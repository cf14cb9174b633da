"""Builds the site from docs/: its pages, the Python reference and `llms.txt`. Nothing is fetched from a network."""
