"""Rows of all calls, batched onto devices."""
