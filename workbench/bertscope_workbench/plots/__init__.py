"""Draws attention maps and what they have in common, sweeps, rankings and benchmarks.

Needs the extra "plot". matplotlib is imported only when a figure is drawn.
"""
