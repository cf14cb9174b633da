"""Says what a method of the client would send: nothing is called, and no server is needed."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from inspect import signature
from typing import Any

import bertscope
import numpy as np
from google.protobuf.message import Message

WEIGHTS = {layer: (np.full((4, 2), layer, np.float32), np.zeros(2, np.float32)) for layer in (3, 0)}
PROBE = bertscope.KeptProbe(("DET", "NOUN"), WEIGHTS, "first", "models/m", "sha256:0")
MARKED = bertscope.RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)])
LABELLED = bertscope.ProbeText("The cat sat", [("noun", 4, 7)])
ARE = bertscope.Answer("are", "is")
GIVEN: Mapping[str, Mapping[str, Any]] = {
    "apply_probe": {"probe": PROBE, "texts": LABELLED},
    "attribute_logits": {"texts": "A [MASK].", "answers": ("a", "b")},
    "attribute_words": {"texts": "A [MASK].", "target": ARE},
    "find_neurons": {"texts": "A [MASK].", "target": ARE},
    "answer_questions": {"questions": ("Who?", "The cat.")},
    "compare_texts": {"sets": [("good", "bad")]},
    "compress_model": {"model_id": "x", "steps": bertscope.int8()},
    "distill_model": {"model_id": "x", "texts": "a", "folder": "/a"},
    "find_contexts": {"texts": "a", "heads": "all"},
    "load_model": {"source": "org/x"},
    "prune_heads": {"model_id": "x", "heads": {1: 0}},
    "query_facts": {"facts": bertscope.Fact("a", "b"), "relations": bertscope.FactRelation("", "[X] is [Y].")},
    "rank_heads": {"objective": bertscope.MaskedLmLoss("a")},
    "score_features": {"texts": bertscope.FeatureText("The cat", [("noun", 4, 7)])},
    "score_relations": {"texts": MARKED},
    "sweep_heads": {"objective": bertscope.MaskedLmLoss("a")},
    "sweep_sites": {"clean": "a [MASK]", "corrupted": "b [MASK]", "target": ARE},
    "train_codes": {"texts": "a", "layer": 1},
    "train_eraser": {"train": LABELLED},
    "train_probe": {"train": LABELLED},
    "train_regression_probe": {"train": bertscope.ValuedText("The cat", [(0.5, 4, 7)])},
    "train_structural_probe": {"train": bertscope.TreeText("The cat", [(2, (0, 3)), (0, (4, 7))])},
    "unload_model": {"model": "x"},
}
"""The arguments that a method needs, where they are not those of `USUAL`."""
USUAL = {"text": "A [MASK].", "texts": "A [MASK].", "inputs": "A [MASK].", "models": "a"}


class Sent(Exception):
    """The request that a client sends; it ends the call."""


class Method:
    """A method of a channel, which sends nothing."""

    def __call__(self, request: Message, **_: object) -> None:
        raise Sent(request)

    future = __call__


class Recorder:
    """A channel that sends nothing."""

    def unary(self, path: str, reply: object) -> Method:
        return Method()

    stream = unary

    def failures(self, seconds: object) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None: ...


def sent(method: str, /, **arguments: Any) -> Message:
    """The first request that a method sends; `needed` has arguments that it can't be called without. Raises InvalidArgument, as
    the method does."""
    with bertscope.Client("127.0.0.1:1") as client:
        client._channel = Recorder()  # type: ignore[assignment]
        try:
            found = getattr(client, method)(**needed(method) | arguments)
            if isinstance(found, Iterator):
                next(found)
        except Sent as request:
            (message,) = request.args
            return message
    raise AssertionError(f"{method} sent nothing")


def needed(method: str) -> dict[str, Any]:
    """The arguments without which a method can't be called."""
    parameters = signature(getattr(bertscope.Client, method)).parameters
    required = (name for name, one in parameters.items() if one.default is one.empty)
    return dict(GIVEN.get(method) or {name: USUAL[name] for name in required if name in USUAL})
