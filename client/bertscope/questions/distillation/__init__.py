"""Trains smaller models with `distill_model`."""
