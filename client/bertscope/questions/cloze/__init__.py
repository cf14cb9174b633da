"""Fills masks: the request of FillMask, its answers and their table."""
