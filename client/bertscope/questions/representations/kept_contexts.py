"""Keeps what a search has found in a file of numpy's .npz format, so that it can go on there."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument
from bertscope.questions.representations.context_arrays import Found, Places, UnitArrays
from bertscope.questions.representations.context_requests import AskedText
from bertscope.questions.representations.contexts import SUMS, Contexts
from bertscope.values.kept_arrays import kept_file, read_about, read_npz, write_npz
from bertscope.values.results import Provenance
from bertscope.values.stored import stored
from bertscope.values.validation import File

__all__ = ["load_contexts", "save_contexts"]

FORMAT = "bertscope contexts 1"
SET_ARRAYS = tuple(each.name for each in dataclasses.fields(UnitArrays))[3:]
PLACE_ARRAYS = ("words", "keys", "partners")
MAX_ARRAYS = 100_000


def save_contexts(found: Contexts, path: File) -> None:
    """Writes contexts to a file; `load_contexts` reads it, and `start_from` of `Client.find_contexts` goes on with it. Raises
    OSError for a file that can't be written."""
    whole, kept = found._kept()
    about = kept | {
        "format": FORMAT,
        "provenance": dataclasses.asdict(found.provenance),
        "named texts": list(whole.texts.items()),
        "sets": [(each.kind, each.layer, each.places) for each in whole.sets],
        "counts": [each.count for each in whole.places],
    }
    arrays: dict[str, Any] = {"words": whole.words}
    for index, each in enumerate(whole.sets):
        arrays |= {f"set {index} {name}": getattr(each, name) for name in SET_ARRAYS}
    for index, places in enumerate(whole.places):
        arrays |= {f"places {index} {name}": getattr(places, name) for name in PLACE_ARRAYS}
    write_npz(path, about, arrays)


def load_contexts(path: File) -> Contexts:
    """Reads contexts that `save_contexts` wrote; nothing in the file is run. Raises OSError for a file that can't be read, and
    InvalidArgument, naming the file, for one of other contents."""
    whole = "is not a file of contexts; give one that save_contexts wrote"
    with Path(path).open("rb") as file, kept_file(path, "holds no contexts that can be used", whole):
        about = read_about(read_npz(file, ["about"], MAX_ARRAYS)["about"], FORMAT)
        sets, counts = about["sets"], about["counts"]
        names = [f"set {index} {name}" for index in range(len(sets)) for name in SET_ARRAYS]
        names += [f"places {index} {name}" for index in range(len(counts)) for name in PLACE_ARRAYS]
        arrays = read_npz(file, ["words", *names], MAX_ARRAYS)
        found = Found(
            [
                UnitArrays(kind, layer, places, *(arrays[f"set {index} {name}"] for name in SET_ARRAYS))
                for index, (kind, layer, places) in enumerate(sets)
            ],
            [Places(count, *(arrays[f"places {index} {name}"] for name in PLACE_ARRAYS)) for index, count in enumerate(counts)],
            arrays["words"],
            {number: text if isinstance(text, str) else tuple(text) for number, text in about["named texts"]},
        )
        contexts = Contexts(
            found,
            names=[(name, layer) for name, layer in about["names"]],
            best=about["best"],
            sample=about["sample"],
            provenance=stored(Provenance, about["provenance"]),
            asked=about["asked"],
            ranges=[(begin, end) for begin, end in about["ranges"]],
            **{name: about[name] for name in SUMS},
        )
        list(contexts)  # Reads all places, and so finds what is not in the file.
        return contexts


def begun(start_from: object, asked: str, first: int) -> Contexts | None:
    """Returns the earlier search that another one goes on with; None if there is none. Raises InvalidArgument for one that was
    asked something else, or began at another text than `first`; and as `load_contexts`."""
    if start_from is None:
        return None
    if not isinstance(start_from, (Contexts, str, PathLike)):
        raise invalid_argument("start_from", f"must be Contexts or their file, not {type(start_from).__name__}")
    earlier = start_from if isinstance(start_from, Contexts) else load_contexts(start_from)
    _, kept = earlier._kept()
    if kept["asked"] != asked:
        told = "has other units, places, sample, seed, words or pieces, another relation or other interventions"
        raise invalid_argument("start_from", f"{told} than this search; ask the same, or leave start_from out")
    if not kept["ranges"] or kept["ranges"][0][0] != first:
        raise invalid_argument("start_from", f"does not begin at text {first}; give the same texts")
    return earlier


def unread(texts: Iterator[AskedText], earlier: Contexts) -> Iterator[AskedText]:
    """Yields the texts that an earlier search has not read. Raises InvalidArgument if it has read others."""
    found, kept = earlier._kept()
    end = kept["ranges"][-1][1]
    number = -1
    for text in texts:
        number = text.number
        if number >= end:
            yield text
        elif found.texts.get(number, text.plain) != text.plain:
            raise invalid_argument("start_from", f"has another text {number}; give the same texts, in the same order")
    if number < end - 1:
        raise invalid_argument("start_from", f"has read {end} texts, and these are {number + 1}; give the same texts")
