"""The questions of the Sentences view about annotated texts: minimal pairs, and linked words of a treebank."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from bertscope import (
    AsyncClient,
    ComparedSet,
    InvalidArgument,
    RelationScore,
    RelationScores,
    RelationText,
    TextComparison,
    TextsProgress,
)
from bertscope.errors import invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event, with_progress
from bertscope_workbench.explore.written_files import written
from bertscope_workbench.readers.item_lists import PartialItems
from bertscope_workbench.readers.treebanks import read_conllu

MAX_PAIRS = 1000
AT_ONCE = 16
"""Pairs in a call, so that some are seen before all are compared."""
MAX_RELATIONS = 40
"""Relations that the page shows, those with most pairs."""
SHOWN = (
    "accuracy", "interval", "chance", "offset", "offset_accuracy", "layer", "head", "direction", "relation", "pairs",
    "chosen_on", "chosen_accuracy",
)  # fmt: skip
"""The fields of a relation's best head that the page shows."""


async def pairs(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"pair": index, "scores": [right, wrong], "outcome": "right" | "tie" | "wrong"}` for each minimal pair, nats, or
    `{"pair": index, "left_out": message}`, and after some of them `{"accuracy": ...}`, the fields of `GroupAccuracy`.

    Fields: right and wrong (texts, equally many, at most 1,000), model.
    """
    right, wrong, model = body.texts("right"), body.texts("wrong"), body.optional_text("model")
    body.done()
    if not 0 < len(right) <= MAX_PAIRS:
        raise invalid_argument("right", f"must be 1 to {MAX_PAIRS} texts")
    if len(wrong) != len(right):
        raise invalid_argument("wrong", "must be as many texts as right")
    model = (await client.get_model(model)).name
    compared: list[ComparedSet] = []
    for start in range(0, len(right), AT_ONCE):
        stop = min(start + AT_ONCE, len(right))
        sets = list(zip(right[start:stop], wrong[start:stop], strict=True))
        left_out: dict[int, InvalidArgument] = {}
        found = await client.compare_texts(sets, model=model, on_rejected=left_out.__setitem__)
        for index, error in left_out.items():
            yield {"pair": start + index, "left_out": str(error)}
        kept = [start + index for index in range(len(sets)) if index not in left_out]
        for index, one in zip(kept, found.sets, strict=True):
            yield {"pair": index, "scores": plain(one.log_likelihoods), "outcome": one.outcome}
        compared += found.sets
        if compared:
            yield {"accuracy": plain(TextComparison(tuple(compared)).accuracy())}


def relations(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Scores how heads attend between linked words: yields `{"progress": {"done", "total"}}` any number of times, then
    `{"relations": [...], "texts": n, "left_out": n}`: of each relation, most pairs first, its best head beside its baselines,
    chosen on a half of the texts and scored on the other, and `accuracies`, [layers][heads], of all texts in that head's
    direction.

    Fields: conllu (the contents of a treebank), model.
    """
    contents, model = body.text("conllu"), body.optional_text("model")
    body.done()

    async def call(on_progress: Callable[[TextsProgress], object]) -> tuple[RelationScores, int]:
        texts = await asyncio.to_thread(_read, contents)
        return await client.score_relations(texts, model=model, on_progress=on_progress), len(texts.problems)

    return with_progress(call, lambda found: _relations(*found))


def _read(contents: str) -> PartialItems[RelationText]:
    """Reads a treebank. Raises InvalidArgument for one of which no sentence can be read."""
    with written(contents, ".conllu") as path:
        return read_conllu(path)


def _relations(found: RelationScores, left_out: int) -> Event:
    scored = [one for one in found.relations.values() if one.pairs]
    shown = sorted(scored, key=lambda one: -one.pairs)[:MAX_RELATIONS]
    return {"relations": [_shown(one) for one in shown], "texts": found.texts, "left_out": left_out}


def _shown(score: RelationScore) -> dict[str, Any]:
    best = score.best()
    accuracies = score.accuracy("forward" if best.direction == "forward" else "backward")
    fields = {name: plain(getattr(best, name)) for name in SHOWN}
    return fields | {"beats_offset": best.beats_offset, "accuracies": plain(accuracies.round(4))}
