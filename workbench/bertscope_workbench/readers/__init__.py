"""Reads files of items, treebanks and tables, and writes the answers to them."""
