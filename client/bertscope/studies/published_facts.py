"""Reads facts as LAMA publishes them (Petroni et al. 2019)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertscope import files
from bertscope.studies.definition import Keys, Part
from bertscope.studies.items import Blank, Item, Read
from bertscope.studies.tables import MASK


def no_options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys that these readers have: none."""
    return {}


def read_masked_sentences(part: Part, path: Path, found: Read) -> list[Item]:
    """Reads LAMA's SQuAD and ConceptNet: JSON Lines with "masked_sentences", of which the first is taken, and "obj_label"."""
    made: list[Item] = []
    table = files.read_items(path, ("masked_sentences", "obj_label"), ("pred",), None, None, dict)
    for row in table:
        sentences = row["masked_sentences"]
        text = sentences if isinstance(sentences, str) else " ".join(map(str, sentences[:1]))
        if text.count(MASK) != 1:
            found.skipped.add("the sentence has not exactly one mask", text)
            continue
        made.append(Blank(text, (str(row["obj_label"]),), (str(row["pred"]),) if "pred" in row else ()))
    return made
