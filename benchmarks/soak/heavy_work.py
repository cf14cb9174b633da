"""The heavy calls of `python -m benchmarks training`: each takes the server seconds or minutes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import bertscope
import numpy as np
from bertscope.representations.probe_texts import ProbeText
from bertscope.representations.tree_texts import TreeText

from benchmarks.lib.texts import texts_of_lengths

Call = Callable[[bertscope.AsyncClient], Awaitable[object]]

ENDLESS = 1000
"""Epochs: a training goes on until it is cancelled."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """Callers that make one call again and again, each on a connection of its own."""

    call: Call
    callers: int = 1


def heavy_work(answerer: str) -> Mapping[str, Heavy]:
    """Returns the heavy calls by name. `answerer` names a model with a question answering head."""
    draw = np.random.default_rng(7)
    texts = texts_of_lengths(draw.integers(12, 40, 200).tolist(), mask=False)
    few, many = ([_labelled(text, classes, draw) for text in texts] for classes in (17, 300))
    trees = [_tree(text, draw) for text in texts_of_lengths(draw.integers(12, 40, 100).tolist(), mask=False)]
    spans = [_labelled(text, 17, draw) for text in texts_of_lengths([40] * 2000, mask=False)]
    prompts = bertscope.MaskedLmLoss(texts_of_lengths([120] * 500, mask=False))
    passage = texts_of_lengths([15_500], mask=False)[0]
    forever = {"max_epochs": ENDLESS, "patience": ENDLESS}

    async def late(client: bertscope.AsyncClient) -> object:
        """Ends by its deadline, while the server reads it or before."""
        try:
            return await client.train_probe(spans, timeout=0.5)
        except (bertscope.DeadlineExceeded, bertscope.ResourceExhausted) as error:
            return error

    return {
        "TrainProbe, 512 hidden units": Heavy(lambda client: client.train_probe(few, hidden_units=512, seeds=5, **forever)),
        "TrainProbe, 300 classes": Heavy(lambda client: client.train_probe(many, seeds=5, ending="minimum")),
        "TrainProbe, mixes": Heavy(lambda client: client.train_probe(few, mix=True, seeds=5, **forever)),
        "TrainStructuralProbe": Heavy(lambda client: client.train_structural_probe(trees, rank=384, seeds=5, **forever)),
        "TrainLens": Heavy(lambda client: client.train_lens(texts, **forever)),
        "MeasureCodeLength": Heavy(lambda client: client.measure_code_length(few, hidden_units=256)),
        "RankHeads": Heavy(lambda client: client.rank_heads(prompts)),
        "AnswerQuestions, long answers": Heavy(
            lambda client: client.answer_questions(("where is it", passage), model=answerer, max_answer_tokens=512, stride=8)
        ),
        "16 x TrainProbe, 1.4 MB, late": Heavy(late, 16),
    }


def _labelled(text: str, classes: int, draw: np.random.Generator) -> ProbeText:
    """Labels each word by chance."""
    return ProbeText(text, [(f"c{draw.integers(classes)}", start, end) for start, end in _words(text)])


def _tree(text: str, draw: np.random.Generator) -> TreeText:
    """Hangs each word under one before it."""
    words = _words(text)
    heads = [0, *(int(draw.integers(number)) + 1 for number in range(1, len(words)))]
    return TreeText(text, list(zip(heads, words, strict=True)))


def _words(text: str) -> list[tuple[int, int]]:
    found, begin = list[tuple[int, int]](), 0
    for word in text.split():
        begin = text.index(word, begin)
        found.append((begin, begin + len(word)))
        begin += len(word)
    return found
