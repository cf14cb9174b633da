"""Reads reproductions: what their data are, what is asked, and what was published."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import PurePath
from typing import Any, get_args

from bertscope import Scoring
from bertscope.values.display import record

from bertscope_workbench.papers.keys import Keys

MEANS = ("items", "groups")
RANKED = "p@1, p@10 (any number)"
METRICS = {
    "choice": ("accuracy",),
    "pair": ("accuracy",),
    "association": ("ss", "lms", "icat"),
    "blank": (RANKED, "mrr"),
    "fact": (RANKED, "mrr", "consistency", "same_if_negated", "misprimed", "primed_p@1", "unprimed_p@1"),
}
"""By kind of item: its metrics."""
SHAPE = ("layers", "heads", "hidden_size", "vocabulary_size", "parameters")
"""Numbers of a model that a published figure may name."""
ReadKeys = Callable[[Keys], Mapping[str, Any]]
"""Takes the keys that a reader has of its own."""
SCORINGS: dict[str, Scoring] = {name: name for name in get_args(Scoring)}


@record
class PublishedFigure:
    """A published figure that a model's can be compared with."""

    model: str
    """The model: a hub id, or the id of an embedded one."""
    metric: str
    """Its metric, one of the reproduction's."""
    value: float
    """Its value, as the metrics here: a share of 1."""
    tolerance: float
    """The largest difference that counts as reproduced."""
    source: str
    """Where it was read: a paper with its table, or an address."""
    group: str = ""
    """The group that it is about; empty for all items."""
    items: int | None = None
    """Number of items that it is about; None if the source does not say."""
    weights: str = ""
    """Digest of the weights, "sha256:..."; empty if the hub's name and the shape must do."""
    shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The allowed numbers by their names in SHAPE; empty if the digest says it."""


@record
class Reproduction:
    """A test that asks a paper's data and has figures, beside those that the paper published."""

    name: str
    title: str
    reader: str
    """Name of a reader; see `bertscope_workbench.papers.published.readers`."""
    files: tuple[str, ...]
    """Patterns of the names of its files: "*.jsonl"; empty with `shipped`."""
    ask: str
    """Kind of its items: "choice", "pair", "association", "blank" or "fact"."""
    metrics: tuple[str, ...]
    """"accuracy"; of ranks "p@1", "p@10" (any number) and "mrr"; of facts also the others in METRICS."""
    options: Mapping[str, Any]
    """The reader's own keys."""
    shipped: bool = False
    """True if the data are part of bertscope."""
    mean: str = "items"
    """The mean that is reported for all items: over "items", or over "groups" as LAMA does."""
    scoring: Scoring = "within_word"
    """The pieces that are masked beside the scored one, for pairs."""
    vocabulary: str = ""
    """Pattern of the file of words that ranks are among; empty for the whole vocabulary of the model."""
    published: tuple[PublishedFigure, ...] = ()

    @property
    def ranks(self) -> bool:
        """True if its ranks are among a vocabulary."""
        return self.ask in ("blank", "fact") and not self.options.get("candidates")


def read_reproduction(
    keys: Keys, name: str, title: str, published: Sequence[Keys], readers: Mapping[str, ReadKeys]
) -> Reproduction:
    """Reads the table [claim.reproduction] of a claim of this name and title, and its tables [[claim.published]]; `readers`
    check their own keys. Raises InvalidArgument."""
    ask = keys.choice("ask", tuple(METRICS))
    known = METRICS[ask]
    metrics = keys.texts("metrics", ("p@1", "p@10", "mrr") if RANKED in known else known)
    for metric in metrics:
        if metric not in known and not (RANKED in known and re.fullmatch(r"p@[1-9]\d*", metric)):
            raise keys.error("metrics", f"{metric!r} is not measured of a {ask}; write {', '.join(known)}")
    is_shipped = keys.take("shipped", bool, False)
    reader = keys.choice("reader", readers)
    found = Reproduction(
        name=name,
        title=title,
        reader=reader,
        files=keys.texts("files"),
        ask=ask,
        metrics=metrics,
        shipped=is_shipped,
        mean=keys.choice("mean", MEANS, "items"),
        scoring=SCORINGS[keys.choice("scoring", SCORINGS, "within_word")],
        published=tuple(_published(each, metrics) for each in published),
        vocabulary=keys.take("vocabulary", str, ""),
        options=readers[reader](keys),
    )
    keys.done()
    for pattern in found.files:
        if PurePath(pattern).is_absolute() or ".." in PurePath(pattern).parts:
            raise keys.error("files", f"{pattern!r} leads out of the folder of --data; write a pattern of names in it")
    if found.vocabulary and not found.ranks:
        raise keys.error("vocabulary", "goes with blanks, and with facts without candidates; take it out")
    return found


def _shape(keys: Keys) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {}
    for name, value in keys.take("shape", dict, {}).items():
        numbers = value if isinstance(value, list) else [value]
        if name not in SHAPE or not numbers or any(type(number) is not int or number < 1 for number in numbers):
            raise keys.error("shape", f"must be whole numbers, or lists of some, by names of {', '.join(SHAPE)}")
        found[name] = tuple(numbers)
    return found


def _published(keys: Keys, metrics: tuple[str, ...]) -> PublishedFigure:
    found = PublishedFigure(
        model=keys.take("model", str),
        metric=keys.choice("metric", metrics, metrics[0]),
        value=keys.take("value", float),
        tolerance=keys.number("tolerance", float, low=0),
        source=keys.take("source", str),
        group=keys.take("group", str, ""),
        items=keys.number("items", int, 0, low=0, high=1e9) or None,
        weights=keys.take("weights", str, ""),
        shape=_shape(keys),
    )
    if not 0 <= found.value <= 1:
        raise keys.error("value", "must be 0 to 1; write 0.833 for 83.3 %")
    keys.done()
    return found
