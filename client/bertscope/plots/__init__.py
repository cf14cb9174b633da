"""Draws attention maps and what they have in common, sweeps, rankings and benchmarks.

matplotlib, the extra `plot`, is imported only when a figure is drawn.
"""

from bertscope.attention.page import attention_page
from bertscope.plots.alignment import plot_alignment, save_alignment
from bertscope.plots.attention import plot_attention, save_attention
from bertscope.plots.attention_statistics import plot_description, save_description
from bertscope.plots.attribution import plot_attribution, save_attribution
from bertscope.plots.benchmark import plot_benchmark, save_benchmark
from bertscope.plots.code_length import plot_code_length, save_code_length
from bertscope.plots.comparison import plot_comparison, save_comparison
from bertscope.plots.geometry import plot_geometry, save_geometry
from bertscope.plots.inspection import plot_inspection, save_inspection
from bertscope.plots.lens import plot_lens, save_lens
from bertscope.plots.probes import plot_probe, save_probe
from bertscope.plots.relations import plot_features, plot_relations, save_features, save_relations
from bertscope.plots.representation_comparison import plot_representations, save_representations
from bertscope.plots.retrieval import plot_retrieval, save_retrieval
from bertscope.plots.structural_probes import plot_structural_probe, save_structural_probe
from bertscope.plots.sweeps import plot_ranking, plot_sweep, save_ranking, save_sweep
from bertscope.plots.trees import plot_trees, save_trees

__all__ = [
    "attention_page",
    "plot_alignment",
    "plot_attention",
    "plot_attribution",
    "plot_benchmark",
    "plot_code_length",
    "plot_comparison",
    "plot_description",
    "plot_features",
    "plot_geometry",
    "plot_inspection",
    "plot_lens",
    "plot_probe",
    "plot_ranking",
    "plot_relations",
    "plot_representations",
    "plot_retrieval",
    "plot_structural_probe",
    "plot_sweep",
    "plot_trees",
    "save_alignment",
    "save_attention",
    "save_attribution",
    "save_benchmark",
    "save_code_length",
    "save_comparison",
    "save_description",
    "save_features",
    "save_geometry",
    "save_inspection",
    "save_lens",
    "save_probe",
    "save_ranking",
    "save_relations",
    "save_representations",
    "save_retrieval",
    "save_structural_probe",
    "save_sweep",
    "save_trees",
]
