"""Measures the structure of the tree, holds its weight to a budget, and writes the tree of CONTRIBUTING.md."""
