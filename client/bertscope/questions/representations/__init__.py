"""Reads states between layers: what the layers of a model hold."""
