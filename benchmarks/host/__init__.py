"""Measures the host alone: what a server spends on calls and texts beside the model."""
