"""Measures models: their speed, their size, and what they lost."""
