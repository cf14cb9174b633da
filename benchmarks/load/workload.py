"""Makes the calls of a workload, and their true answers, computed without a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bertscope.v1 import cloze_pb2
from bertscope_service.analyses.cloze import FilledMask

from benchmarks.lib.fillings import Filling, agree, fillings
from benchmarks.lib.texts import cloze_texts
from benchmarks.serving.cloze import TOP_K, Direct

MORE = 20
"""The number of additional words known for each mask: see fillings.agree."""


@dataclass(frozen=True, slots=True)
class Workload:
    """FillMask calls of `texts` texts each, serialized; `truths` are in the order of the requests."""

    model: str
    """Its name for people."""
    texts: int
    requests: list[bytes]
    truths: list[list[Filling]]

    def check(self, request: int, reply: bytes) -> bool:
        """Returns whether a reply is right for the request of that number."""
        return agree(fillings(cloze_pb2.FillMaskResponse.FromString(reply).results), self.truths[request])


def cloze_workloads(model: str, folder: Path, sizes: list[int]) -> list[Workload]:
    """Returns one workload for each size: capitals of the world, this many in a call. The model is the server's default."""
    texts = cloze_texts()
    # Float32 by PyTorch, whatever runtime the server uses.
    answers = Direct(folder, TOP_K + MORE)(texts)
    workloads = []
    for size in sizes:
        begins = range(0, len(texts) - size + 1, size)
        requests = [cloze_pb2.FillMaskRequest(texts=texts[begin : begin + size], top_k=TOP_K) for begin in begins]
        truths = [[_filling(mask) for masks in answers[begin : begin + size] for mask in masks] for begin in begins]
        workloads.append(Workload(model, size, [request.SerializeToString() for request in requests], truths))
    return workloads


def _filling(mask: FilledMask) -> Filling:
    return {word.pieces: log for word, log in zip(mask.words, mask.logs, strict=True)}
