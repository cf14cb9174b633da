"""Batches rows of all calls onto devices."""
