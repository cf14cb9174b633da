"""Asks a bertscope server what BERT-family models know and which of their heads matter.

>>> import bertscope
>>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
...     for answer in client.fill_mask(["Paris is the capital of [MASK]."], top_k=5):
...         print(answer.masks[0].predictions[0].token)
"""

from bertscope._version import __version__
from bertscope.ablation import CurvePoint, HeadEffect, HeadRanking, MetricEffect, SweepStart, SweepSummary, SweepTable
from bertscope.async_client import AsyncClient
from bertscope.classification import ClassifiedText, ClassifiedTexts, LabelPrediction
from bertscope.client import Client
from bertscope.errors import (
    AlreadyExists,
    BertscopeError,
    Cancelled,
    DeadlineExceeded,
    FailedPrecondition,
    FieldViolation,
    InternalError,
    InvalidArgument,
    InvalidReply,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
    Unimplemented,
)
from bertscope.files import read_inputs, read_labelled, read_pairs, read_prompts, read_texts
from bertscope.interventions import HeadIntervention, mean, scale, uniform, zero
from bertscope.objectives import ClozePrompts, Divergence, Greedy, LabelledTexts, MaskedLmLoss, MinimalPairs
from bertscope.plots import attention_page, plot_attention, save_attention
from bertscope.results import (
    AttentionMaps,
    FilledMask,
    FilledText,
    FilledTexts,
    Health,
    LoadProgress,
    Model,
    Models,
    Prediction,
    Provenance,
    Token,
)
from bertscope.sweep_plots import plot_ranking, plot_sweep, save_ranking, save_sweep
from bertscope.sweeps import AsyncHeadSweep, HeadSweep

__all__ = [
    "AlreadyExists",
    "AsyncClient",
    "AsyncHeadSweep",
    "AttentionMaps",
    "BertscopeError",
    "Cancelled",
    "ClassifiedText",
    "ClassifiedTexts",
    "Client",
    "ClozePrompts",
    "CurvePoint",
    "DeadlineExceeded",
    "Divergence",
    "FailedPrecondition",
    "FieldViolation",
    "FilledMask",
    "FilledText",
    "FilledTexts",
    "Greedy",
    "HeadEffect",
    "HeadIntervention",
    "HeadRanking",
    "HeadSweep",
    "Health",
    "InternalError",
    "InvalidArgument",
    "InvalidReply",
    "LabelPrediction",
    "LabelledTexts",
    "LoadProgress",
    "MaskedLmLoss",
    "MetricEffect",
    "MinimalPairs",
    "Model",
    "Models",
    "NotFound",
    "PermissionDenied",
    "Prediction",
    "Provenance",
    "ResourceExhausted",
    "SweepStart",
    "SweepSummary",
    "SweepTable",
    "Token",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "__version__",
    "attention_page",
    "mean",
    "plot_attention",
    "plot_ranking",
    "plot_sweep",
    "read_inputs",
    "read_labelled",
    "read_pairs",
    "read_prompts",
    "read_texts",
    "save_attention",
    "save_ranking",
    "save_sweep",
    "scale",
    "uniform",
    "zero",
]
