"""Traces: for each call a span, and where its time went."""
