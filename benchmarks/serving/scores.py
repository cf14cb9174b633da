"""Measures ScoreTexts through gRPC from one client, in turn with a loop over transformers with its best batch size; and the
server's memory while it scores a text of 512 tokens."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import bertscope
import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER

from benchmarks.lib.measure import Claim, fastest, in_turn, mebibytes, per_second, share
from benchmarks.lib.options import RUNTIME, SENTENCES, option, rounds
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import bert_base, plain, read_sentences, texts_of_lengths

OPTIONS = (
    rounds(3),
    RUNTIME,
    SENTENCES,
    option("--count", "sentences", 1000),
    option("--base-count", "sentences for the bert-base; none: as many", type=int),
)
BATCHES = (8, 16, 32, 64)
"""Rows in a batch of the loop; the fastest one counts."""
TRIED = 12
"""The sentences on which batch sizes are tried."""
LONG_TOKENS = 512
TOLERANCE = 2e-4
"""The largest relative difference of a score."""


@dataclass(frozen=True, slots=True)
class Work:
    """A model and the texts that are scored."""

    name: str
    folder: Path
    texts: list[str]


def claims(options: Namespace) -> Iterator[Claim]:
    """Yields the comparisons of both models, then memory."""
    texts = read_sentences(options.texts, options.count)
    with (
        bert_base() as base,
        serving(f"--model=base={base}", f"--model=mini={EMBEDDED_FOLDER}", "--runtime", options.runtime) as server,
    ):
        for work in (Work("mini", EMBEDDED_FOLDER, texts), Work("base", base, texts[: options.base_count])):
            yield from _compare(server, work, options.rounds)
        for model in ("mini", "base"):
            yield _memory(server, model)


def _compare(server: Running, work: Work, rounds: int) -> Iterator[Claim]:
    client = bertscope.Client(server.target)

    def ours() -> Sequence[float]:
        return [text.log_likelihood for text in client.score_texts(work.texts, model=work.name, pieces=False)]

    loop = Loop(work)
    np.testing.assert_allclose(ours(), loop.score(), rtol=TOLERANCE, atol=1e-3)
    what = f"ScoreTexts, {work.name}, {len(work.texts)} sentences / loop over transformers, {loop.batch} rows in a batch"
    yield in_turn(ours, loop.score, rounds).claim(what, "at least 2x", per_second(len(work.texts), "sentences"))


class Loop:
    """Scores texts by transformers in this process: masked copies of a text in batches of a number of rows."""

    def __init__(self, work: Work) -> None:
        self._model, self._tokenizer = plain(work.folder)
        self._texts = work.texts
        self.batch = fastest(BATCHES, lambda size: self.scores(work.texts[:TRIED], size))
        """The fastest number of rows."""

    def score(self) -> list[float]:
        """Returns the scores of all texts."""
        return self.scores(self._texts, self.batch)

    @torch.inference_mode()
    def scores(self, texts: Sequence[str], size: int) -> list[float]:
        """Returns the scores of some texts, with `size` rows in a batch."""
        return [self._score(text, size) for text in texts]

    def _score(self, text: str, size: int) -> float:
        encoded = self._tokenizer(text, return_tensors="pt")
        ids, words = encoded["input_ids"][0], encoded.word_ids()
        places = [place for place, word in enumerate(words) if word is not None]
        rows = ids.repeat(len(places), 1)
        for row, place in enumerate(places):
            later = [other for other in range(place, len(words)) if words[other] == words[place]]
            rows[row, later] = self._tokenizer.mask_token_id
        total = 0.0
        for begin in range(0, len(places), size):
            part = rows[begin : begin + size]
            its = torch.tensor(places[begin : begin + size])
            logits = self._model(input_ids=part).logits[torch.arange(len(part)), its]
            total += float(logits.log_softmax(-1).gather(1, ids[its][:, None]).double().sum())
        return total


def _memory(server: Running, model: str) -> Claim:
    """Compares the server's memory while it scores a text of 512 tokens with its memory for one short text.

    Of a bert-base, which takes minutes for all, the first words are scored.
    """
    (text,) = texts_of_lengths([LONG_TOKENS], mask=False)
    words = text.split()
    end = len(text) if model == "mini" else len(" ".join(words[:24]))
    given = bertscope.ScoredInput(text, [(0, end)])
    with bertscope.Client(server.target) as client:
        client.score_texts(" ".join(words[:16]), model=model)
        before = server.resident_bytes()
        with server.peak() as peak:
            client.score_texts(given, model=model)
    return share(f"memory of the server, {model}: a text of 512 tokens / before", peak, [before], mebibytes, "1")
