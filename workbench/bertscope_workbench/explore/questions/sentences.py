"""The questions of the Sentences view: which sentences a file has, what a model says of each, and what its heads do there."""

import asyncio
import math
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from itertools import islice
from typing import Any, NamedTuple

from bertscope import AsyncClient, AttentionDescription, InvalidArgument, Model
from bertscope.errors import invalid_argument
from bertscope.values.validation import TextOrPair

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.streams import Event, each_of
from bertscope_workbench.explore.written_files import said, written
from bertscope_workbench.readers.conllu import read_sentences
from bertscope_workbench.readers.files import SENTENCES, item_lines
from bertscope_workbench.readers.item_lists import PartialItems

MAX_ROWS = 1000
"""Rows of a file."""
MAX_ASKED = 2 * MAX_ROWS
"""Rows that are asked about at once: those of a file, and edited copies."""
CONLLU = ".conllu"
SUFFIXES = (".txt", ".csv", ".tsv", ".jsonl", CONLLU)
NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,17})?")
"""A text that is shown as a number, of a file without types: not "007", which would become another text."""
MORE_COLUMNS = 6
"""Columns of a file that are shown beside those that are read."""
PREDICTIONS = 3
MASK = "[MASK]"


class _Row(NamedTuple):
    """A sentence, or a pair, and what is right for it."""

    text: TextOrPair
    answers: list[str]
    """Words for the first mask."""
    label: str | None
    """The name of a label, or its index."""


async def table(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Reads the sentences of a file: yields `{"rows": [...], "left_out": [messages], "cut": flag}`, of each row the line, the
    text, and what there is of text_pair, answers, label and more (values of other columns by name). `left_out` are lines that
    can't be read, `cut` is true if there are more than 1,000.

    Fields: contents, suffix (.txt, .csv, .tsv, .jsonl or .conllu), columns (`{"text": "sentence1"}`, as `--columns`).
    """
    contents, suffix, columns = body.text("contents"), body.text("suffix", ".txt"), body.names("columns")
    body.done()
    if suffix not in SUFFIXES:
        raise invalid_argument("suffix", f"must be one of {', '.join(SUFFIXES)}")
    yield await asyncio.to_thread(_read, contents, suffix, columns)


def _read(contents: str, suffix: str, columns: Mapping[str, str]) -> Event:
    """Returns the rows of a file. Raises InvalidArgument for a file without any."""
    problems: list[InvalidArgument] = []
    with written(contents, suffix) as path:
        if suffix == CONLLU:
            found = read_sentences(path, MAX_ROWS + 1, lambda sentence: sentence.text, PartialItems[str]())
            problems = found.problems
            rows: list[Event] = [{"line": line, "text": text} for line, text in zip(found.lines, found, strict=True)]
        else:
            lines = item_lines(path, SENTENCES, columns, problems.append)
            rows = [{"line": line.number} | row | _more(line.columns, columns) for line, row in islice(lines, MAX_ROWS + 1)]
    left_out = [said(problem, path) for problem in problems]
    if not rows:
        raise invalid_argument("contents", left_out[0] if left_out else "has no sentence")
    return {"rows": rows[:MAX_ROWS], "left_out": left_out, "cut": len(rows) > MAX_ROWS}


def _more(values: Mapping[str, Any], columns: Mapping[str, str]) -> Event:
    read = {columns.get(name, name) for name in (*SENTENCES.required, *SENTENCES.optional)} | {"answers"}
    more = {name: plain(value) for name, value in values.items() if name not in read and isinstance(value, (str, int, float))}
    shown = {
        name: float(value) if isinstance(value, str) and NUMBER.fullmatch(value) else value for name, value in more.items()
    }
    return {"more": dict(islice(shown.items(), MORE_COLUMNS))} if shown else {}


async def rows(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"row": index, "tokens", "score", "pieces", "predictions", "loss", "right", "statistics", "patterns"}` for each
    row, in any order; `{"row": index, "left_out": message}` for one that the server rejects.

    `score` is the pseudo-log-likelihood over the number of pieces, nats; `predictions` are the three likeliest words of the
    first mask, or labels, with their probabilities. Of a row with gold words or a label, `loss` is -ln P of it, nats (of
    several words, of the likeliest), and `right` is whether the first prediction is one: null for words of several pieces.
    `statistics` and `patterns` are those of `describe`. What a row or a model has not is left out.

    Fields: rows ({text, text_pair, answers, label}; at most 2,000), model.
    """
    asked, model = [_row(part) for part in body.parts("rows")], body.optional_text("model")
    body.done()
    if not 0 < len(asked) <= MAX_ASKED:
        raise invalid_argument("rows", f"must be 1 to {MAX_ASKED}")
    found = await client.get_model(model)
    async with aclosing(each_of(asked, lambda index, row: _answered(client, found, index, row))) as events:
        async for event in events:
            yield event


async def describe(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"statistics": {name: [layers][heads]}, "patterns": [layers][heads]}`: the means of all statistics of
    `describe_attention` over the texts, and the class of most maps of each head, empty for a head that was pruned away.

    Fields: texts (at most 1,000), model.
    """
    texts, model = body.texts("texts"), body.optional_text("model")
    body.done()
    if not 0 < len(texts) <= MAX_ROWS:
        raise invalid_argument("texts", f"must be 1 to {MAX_ROWS} sentences")
    yield _heads(await client.describe_attention(texts, model=model))


def _heads(found: AttentionDescription) -> Event:
    means = {name: plain(found.mean(name).round(6)) for name in found.statistics}
    return {"statistics": means, "patterns": plain(found.majority())}


def _row(part: Body) -> _Row:
    text, pair = part.text("text"), part.optional_text("text_pair")
    row = _Row((text, pair) if pair else text, part.texts("answers"), part.optional_text("label"))
    part.done()
    return row


async def _answered(client: AsyncClient, model: Model, index: int, row: _Row) -> Event:
    try:
        event: Event = {"row": index}
        if "attention" in model.capabilities:
            described = await client.describe_attention([row.text], model=model.name)
            event |= {"tokens": described.tokens} | _heads(described)
        if "cloze" in model.capabilities:
            event |= await _filled(client, model.name, row)
            event |= await _scored(client, model.name, row)
        elif {"classification", "multi_label"} & set(model.capabilities):
            event |= await _labelled(client, model, row)
    except InvalidArgument as error:
        return {"row": index, "left_out": str(error)}
    return event


async def _filled(client: AsyncClient, model: str, row: _Row) -> Event:
    text, *pair = (row.text,) if isinstance(row.text, str) else row.text
    if not any(MASK in part for part in (text, *pair)):
        return {}
    (found,) = await client.fill_mask([text], text_pairs=pair or None, model=model, top_k=PREDICTIONS)
    event: Event = {"predictions": [[one.token, one.probability] for one in found.masks[0].predictions]}
    if not row.answers:
        return event
    (found,) = await client.fill_mask([text], text_pairs=pair or None, model=model, candidates=row.answers)
    golds = found.masks[0].predictions
    ranks = [one.rank for one in golds if one.rank is not None]  # A word of several pieces has none.
    loss = -max(one.log_probability for one in golds)
    return event | {"loss": loss, "right": min(ranks) == 1 if ranks else None}


async def _scored(client: AsyncClient, model: str, row: _Row) -> Event:
    (found,) = await client.score_texts([row.text], model=model, pieces=False)
    return {"tokens": found.tokens, "score": found.log_likelihood / found.scored_pieces, "pieces": found.scored_pieces}


async def _labelled(client: AsyncClient, model: Model, row: _Row) -> Event:
    (found,) = await client.classify([row.text], model=model)
    shown = [[one.label, one.probability] for one in found.labels[:PREDICTIONS]]
    event: Event = {"tokens": found.tokens, "predictions": shown}
    gold = next((one for one in found.labels if row.label in (one.label, str(one.index))), None)
    if gold is None or found.multi_label:
        return event
    top = found.labels[0].logit
    total = top + math.log(math.fsum(math.exp(one.logit - top) for one in found.labels))
    return event | {"loss": total - gold.logit, "right": gold.index == found.labels[0].index}
