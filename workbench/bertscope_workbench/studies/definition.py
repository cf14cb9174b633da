"""Reads the definition of a study: a TOML file that says what its data are, what is asked, and what was published.

An error names the file, the key and the remedy.
"""

from __future__ import annotations

import importlib.resources
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import field
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, get_args

from bertscope import InvalidArgument, Scoring
from bertscope.errors import invalid_argument
from bertscope.values.display import record

SUFFIX = ".toml"
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
SCORINGS: dict[str, Scoring] = {name: name for name in get_args(Scoring)}


@record
class Published:
    """A published figure."""

    model: str
    """The model: a hub id, or the id of an embedded one."""
    metric: str
    """Its metric, one of the part's."""
    value: float
    """Its value, as the metrics here: a share of 1."""
    tolerance: float
    """The largest difference that counts as reproduced."""
    source: str
    """Where it was read: a paper with its table, or an address."""
    group: str = ""
    """The group that it is about; empty for the whole part."""
    items: int | None = None
    """Number of items that it is about; None if the source does not say."""
    weights: str = ""
    """Digest of the weights, "sha256:..."; empty if the hub's name and the shape must do."""
    shape: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The allowed numbers by their names in SHAPE; empty if the digest says it."""


@record
class Part:
    """One question of a study, with the data that it needs."""

    name: str
    title: str
    asked: str
    definition: str
    """The computed numbers, and where they are defined."""
    paper: str
    """The finding of the paper."""
    reader: str
    """Name of a reader; see `bertscope_workbench.studies.readers`."""
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
    """The mean that is reported for the whole part: over "items", or over "groups" as LAMA does."""
    scoring: Scoring = "within_word"
    """The pieces that are masked beside the scored one, for pairs."""
    vocabulary: str = ""
    """Pattern of the file of words that ranks are among; empty for the whole vocabulary of the model."""
    published: tuple[Published, ...] = ()

    @property
    def ranks(self) -> bool:
        """True if its ranks are among a vocabulary."""
        return self.ask in ("blank", "fact") and not self.options.get("candidates")


@record
class Definition:
    """A study."""

    name: str
    title: str
    paper: str
    parts: tuple[Part, ...] = field(default_factory=tuple)


@record
class Keys:
    """The keys of one table of a definition. `take` removes them; what is left is an error."""

    file: str
    where: str
    values: dict[str, Any]

    def take(self, key: str, kind: type, default: Any = None, *, wanted: str = "") -> Any:
        """Returns the value of a key. Raises InvalidArgument if it is missing without a default, or of another type."""
        if key not in self.values:
            if default is None:
                raise self.error(key, f"is missing; write {wanted or example(key, kind)}")
            return default
        value = self.values.pop(key)
        right = isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)
        if kind is float and type(value) is int:
            value, right = float(value), True
        if not right or (kind in (str, list) and not value):
            raise self.error(key, f"must be {wanted or example(key, kind)}")
        return value

    def texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Returns a list of texts; one text stands for a list of one."""
        if isinstance(self.values.get(key), str):
            return (self.take(key, str),)
        values = self.take(key, list, default)
        if not all(isinstance(value, str) and value for value in values):
            raise self.error(key, f"must be a list of texts, {example(key, list)}")
        return tuple(values)

    def choice(self, key: str, choices: Mapping[str, Any] | tuple[str, ...], default: str | None = None) -> str:
        """Returns one of some words."""
        known = ", ".join(choices)
        value: str = self.take(key, str, default, wanted=f'{key} = "..." with one of {known}')
        if value not in choices:
            raise self.error(key, f"{value!r} is not known; write one of {known}")
        return value

    def error(self, key: str, why: str) -> InvalidArgument:
        """Returns the error of a key."""
        return invalid_argument(f"{self.file}: {self.where}{key}", why)

    def done(self) -> None:
        """Raises InvalidArgument for keys that nobody took."""
        for key in self.values:
            raise self.error(key, "is not a key that is read here; take it out or mend its name")


def example(key: str, kind: type) -> str:
    """Returns how a key is written."""
    return (
        f"{key} = "
        + {str: '"..."', list: '["...", "..."]', bool: "true or false", float: "0.5", int: "100", dict: "{...}"}[kind]
    )


def read_definition(name: str, readers: Mapping[str, Callable[[Keys], Mapping[str, Any]]]) -> Definition:
    """Reads the definition of a shipped study by its name, or of another by its path; `readers` check their own keys.

    Raises InvalidArgument for an unknown name and for a broken definition, and OSError for a file that can't be read.
    """
    if name.endswith(SUFFIX):
        try:
            text = Path(name).read_text("utf-8")
        except UnicodeDecodeError as error:
            raise invalid_argument(name, f"is not UTF-8 ({error.reason})") from None
        return _definition(name, Path(name).stem, text, readers)
    found = shipped()
    if name not in found:
        raise invalid_argument(
            "name", f"{name!r} is no study; these are: {', '.join(found)}; a file of yours ends with {SUFFIX}"
        )
    return _definition(name + SUFFIX, name, found[name].read_text("utf-8"), readers)


def shipped() -> dict[str, Traversable]:
    """Returns the shipped definitions by name."""
    folder = importlib.resources.files("bertscope_workbench.studies").joinpath("definitions")
    names = sorted(each.name for each in folder.iterdir() if each.name.endswith(SUFFIX))
    return {name.removesuffix(SUFFIX): folder.joinpath(name) for name in names}


def _definition(file: str, name: str, text: str, readers: Mapping[str, Callable[[Keys], Mapping[str, Any]]]) -> Definition:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise invalid_argument(file, f"is not TOML: {error}") from None
    keys = Keys(file, "", values)
    title, paper = keys.take("title", str), keys.take("paper", str)
    parts = keys.take("part", list, wanted="one or more tables [[part]]")
    keys.done()
    found: list[Part] = []
    for number, part in enumerate(parts, start=1):
        where = f"part {number}, "
        if not isinstance(part, dict):
            raise keys.error("part", "must be tables; write [[part]] above each")
        found.append(_part(Keys(file, where, part), readers))
        if found[-1].name in [earlier.name for earlier in found[:-1]]:
            raise keys.error("part", f"two have the name {found[-1].name!r}; name each differently")
    return Definition(name, title, paper, tuple(found))


def _part(keys: Keys, readers: Mapping[str, Callable[[Keys], Mapping[str, Any]]]) -> Part:
    ask = keys.choice("ask", tuple(METRICS))
    known = METRICS[ask]
    metrics = keys.texts("metrics", ("p@1", "p@10", "mrr") if RANKED in known else known)
    for metric in metrics:
        if metric not in known and not (RANKED in known and re.fullmatch(r"p@[1-9]\d*", metric)):
            raise keys.error("metrics", f"{metric!r} is not measured of a {ask}; write {', '.join(known)}")
    published = keys.take("published", list, [])
    is_shipped = keys.take("shipped", bool, False)
    reader = keys.choice("reader", readers)
    found = Part(
        name=keys.take("name", str),
        title=keys.take("title", str),
        asked=keys.take("asked", str),
        definition=keys.take("definition", str),
        paper=keys.take("paper", str, "nothing is given"),
        reader=reader,
        files=keys.texts("files"),
        ask=ask,
        metrics=metrics,
        shipped=is_shipped,
        mean=keys.choice("mean", MEANS, "items"),
        scoring=SCORINGS[keys.choice("scoring", SCORINGS, "within_word")],
        published=tuple(
            _published(Keys(keys.file, f"{keys.where}published {number}, ", each), metrics)
            for number, each in enumerate(published, start=1)
        ),
        vocabulary=keys.take("vocabulary", str, ""),
        options=readers[reader](keys),
    )
    keys.done()
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


def _published(keys: Keys, metrics: tuple[str, ...]) -> Published:
    found = Published(
        model=keys.take("model", str),
        metric=keys.choice("metric", metrics, metrics[0]),
        value=keys.take("value", float),
        tolerance=keys.take("tolerance", float),
        source=keys.take("source", str),
        group=keys.take("group", str, ""),
        items=keys.take("items", int, 0) or None,
        weights=keys.take("weights", str, ""),
        shape=_shape(keys),
    )
    if not 0 <= found.value <= 1:
        raise keys.error("value", "must be 0 to 1; write 0.833 for 83.3 %")
    keys.done()
    return found
