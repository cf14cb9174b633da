"""The calls that are sent, and their true answers, found without a server."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bertscope.v1 import cloze_pb2

from benchmarks.cloze import TOP_K, Direct
from benchmarks.fillings import Filling, agree, fillings
from benchmarks.texts import cloze_texts

MORE = 20
"""So many more words of each mask are known than are asked for: see fillings.agree."""


@dataclass(frozen=True, slots=True)
class Workload:
    """FillMask calls of `texts` texts each, serialized; `truths` are in the order of the requests."""

    METHOD: ClassVar[str] = "/bertscope.v1.ClozeService/FillMask"

    model: str
    """Its name for people."""
    texts: int
    requests: list[bytes]
    truths: list[list[Filling]]

    def check(self, request: int, reply: bytes) -> bool:
        """Whether a reply is the right one to the request of that number."""
        return agree(fillings(cloze_pb2.FillMaskResponse.FromString(reply).results), self.truths[request])


def cloze_workloads(model: str, folder: Path, sizes: list[int]) -> list[Workload]:
    """Capitals of the world, so many of them in a call; one workload for each size. The model is the server's default."""
    texts = cloze_texts()
    # Float32 by PyTorch, whatever the server runs it by.
    answers = Direct(folder, TOP_K + MORE)(texts)
    workloads = []
    for size in sizes:
        begins = range(0, len(texts) - size + 1, size)
        requests = [cloze_pb2.FillMaskRequest(texts=texts[begin : begin + size], top_k=TOP_K) for begin in begins]
        truths = [fillings(answers[begin : begin + size]) for begin in begins]
        workloads.append(Workload(model, size, [request.SerializeToString() for request in requests], truths))
    return workloads
