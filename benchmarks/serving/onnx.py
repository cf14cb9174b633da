"""Measures cloze through gRPC on ONNX against ONNX Runtime alone."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import torch
from bertscope_service.analyses.cloze import ClozePlan, ClozeQuery
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_service.encoders.onnx.values import FAST, LOGITS
from bertscope_service.models.export_cache import exported

from benchmarks.lib.measure import Claim, fastest, in_turn, per_second
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import cloze_texts, write_bert_base
from benchmarks.serving.cloze import CALLERS, Callers

OPTIONS = (ROUNDS,)
BATCHES = (8, 16, 32, 64, 128)


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures texts per second of the embedded model and of a bert-base."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        bert_base = write_bert_base(root / "bert-base")
        for folder, texts in ((EMBEDDED_FOLDER, cloze_texts()), (bert_base, cloze_texts()[::6])):
            yield serving_claim(folder, texts, root / "cache", options.rounds)


def serving_claim(folder: Path, texts: list[str], cache: Path, rounds: int) -> Claim:
    """Measures 8 callers with an eighth of all texts each, against the same graph in a loop at its best batch."""
    source = inspect(folder)
    graphs = exported(source, source.digest(lambda _: None), cache)
    alone = Alone(graphs, folder, texts)
    best = fastest(BATCHES, alone)
    expected = alone(best)
    flags = ("--runtime", "onnx", "--cache-folder", str(cache), "--model", f"served={folder}")
    with serving(*flags) as server, Callers(server.target) as callers:
        size = -(-len(texts) // CALLERS)
        answers = callers.ask(texts, size)
        assert [answer.masks[0].predictions[0].piece_ids[0] for answer in answers] == expected
        pair = in_turn(partial(callers.ask, texts, size), lambda: alone(best), rounds)
    what = f"cloze over gRPC on ONNX, {folder.name}, {CALLERS} callers, {size} texts a call / onnxruntime alone, batch {best}"
    return pair.claim(what, "at least 0.85x", per_second(len(texts), "texts"))


class Alone:
    """The fast graph in a loop: texts tokenized before, sorted by length; the likeliest piece of each is taken."""

    def __init__(self, graphs: Path, folder: Path, texts: list[str]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        self._session = onnxruntime.InferenceSession(str(graphs / FAST), options, providers=["CPUExecutionProvider"])
        plan = ClozePlan(ClozeQuery(tuple(texts), 1, (), truncate=False), TextTokenizer.load(folder, 512))
        self._rows = [(text.sequence, masks[0]) for text, masks in zip(plan.texts, plan.masks, strict=True)]
        self._order = sorted(range(len(texts)), key=lambda row: len(self._rows[row][0]))

    def __call__(self, size: int) -> list[int]:
        """Returns the id of the likeliest piece for each text, `size` of them at a time."""
        found = [0] * len(self._rows)
        for begin in range(0, len(self._order), size):
            numbers = self._order[begin : begin + size]
            (logits,) = self._session.run([LOGITS], self._feeds([self._rows[number] for number in numbers]))
            for number, best in zip(numbers, np.asarray(logits).argmax(axis=1).tolist(), strict=True):
                found[number] = best
        return found

    def _feeds(self, rows: list[tuple[Any, int]]) -> dict[str, np.ndarray[Any, Any]]:
        longest = max(len(sequence) for sequence, _ in rows)
        ids, valid = np.zeros((len(rows), longest), np.int64), np.zeros((len(rows), longest), np.bool_)
        for row, (sequence, _) in enumerate(rows):
            ids[row, : len(sequence)], valid[row, : len(sequence)] = sequence.ids, True
        positions = np.array([[position] for _, position in rows])
        feeds = {"ids": ids, "segments": np.zeros_like(ids), "valid": valid, "positions": positions}
        return {value.name: feeds[value.name] for value in self._session.get_inputs()}
