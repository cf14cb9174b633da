"""Asks a bertscope server what BERT-family models know and which of their heads matter.

>>> import bertscope
>>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
...     for answer in client.fill_mask(["Paris is the capital of [MASK]."], top_k=5):
...         print(answer.masks[0].predictions[0].token)
"""

from bertscope._version import __version__
from bertscope.async_client import AsyncClient
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
from bertscope.interventions import HeadIntervention, scale, uniform, zero
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

__all__ = [
    "AlreadyExists",
    "AsyncClient",
    "AttentionMaps",
    "BertscopeError",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "FailedPrecondition",
    "FieldViolation",
    "FilledMask",
    "FilledText",
    "FilledTexts",
    "HeadIntervention",
    "Health",
    "InternalError",
    "InvalidArgument",
    "InvalidReply",
    "LoadProgress",
    "Model",
    "Models",
    "NotFound",
    "PermissionDenied",
    "Prediction",
    "Provenance",
    "ResourceExhausted",
    "Token",
    "Unauthenticated",
    "Unavailable",
    "Unimplemented",
    "__version__",
    "attention_page",
    "plot_attention",
    "save_attention",
    "scale",
    "uniform",
    "zero",
]
