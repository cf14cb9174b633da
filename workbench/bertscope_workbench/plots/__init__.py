"""Draws attention maps and what they have in common, sweeps, rankings and benchmarks.

matplotlib is imported only when a figure is drawn.
"""
