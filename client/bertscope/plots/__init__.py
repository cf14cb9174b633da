"""Draws attention maps, sweeps, rankings and benchmarks.

matplotlib, the extra `plot`, is imported only when a figure is drawn.
"""

from bertscope.attention.page import attention_page
from bertscope.plots.attention import plot_attention, save_attention
from bertscope.plots.benchmark import plot_benchmark, save_benchmark
from bertscope.plots.sweeps import plot_ranking, plot_sweep, save_ranking, save_sweep

__all__ = [
    "attention_page",
    "plot_attention",
    "plot_benchmark",
    "plot_ranking",
    "plot_sweep",
    "save_attention",
    "save_benchmark",
    "save_ranking",
    "save_sweep",
]
