"""Sweeps over heads and layers, rankings of heads, and their evaluation."""
