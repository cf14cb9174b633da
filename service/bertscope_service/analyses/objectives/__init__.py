"""Objectives that are measured while heads are changed: each module turns items into rows, and results into numbers."""
