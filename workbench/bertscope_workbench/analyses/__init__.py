"""Measures a corpus by several calls: alignment, retrieval, neighbours, code length, trees, contacts, ranking."""
