"""Measures the importance of heads: objectives, sweeps, rankings."""
