"""Compares the CPU time of a client's calls with a bare stub's: `Client` with `grpc`, `AsyncClient` with `grpc.aio`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bertscope.v1 import attention_pb2, classification_pb2, cloze_pb2, common_pb2
from google.protobuf.message import Message

from benchmarks.host.pairs import Costs, Pair
from benchmarks.host.questions import LABELS, LARGE, SMALL, TEXTS_PER_CALL
from benchmarks.lib.processes import run_module
from benchmarks.lib.report import Table, span
from benchmarks.lib.texts import cloze_texts

LONG_TEXT = " ".join(["word"] * 500)
SHARING = (8, 32)
"""Threads or tasks that share one client."""


@dataclass(frozen=True, slots=True)
class ClientCall:
    """A call of a client: its name in the table, and its method and request."""

    name: str
    method: str
    request: Message
    texts: int
    asynchronous: bool
    callers: int = 1
    reading: bool = False
    connecting: bool = False

    @property
    def title(self) -> str:
        return f"{'AsyncClient' if self.asynchronous else 'Client'}, {self.name}"


def client_calls() -> list[ClientCall]:
    """Returns the calls of both clients."""
    return [call for asynchronous in (False, True) for call in _calls(asynchronous)]


def _calls(asynchronous: bool) -> list[ClientCall]:
    found = []
    for reading in (False, True):
        also = ", all read" if reading else ""
        for count in TEXTS_PER_CALL:
            fill = ClientCall(f"FillMask{also}", "FillMask", _fill_mask(count), count, asynchronous, reading=reading)
            found.append(fill)
        for count in (1, 64):
            inputs = [common_pb2.TextInput(text=text) for text in cloze_texts()[:count]]
            classify = classification_pb2.ClassifyRequest(model=f"models/{LABELS}", inputs=inputs)
            found.append(ClientCall(f"Classify{also}", "Classify", classify, count, asynchronous, reading=reading))
        for name, texts in (("short texts", cloze_texts()[:8]), ("502 tokens", [LONG_TEXT] * 8)):
            inputs = [common_pb2.TextInput(text=text) for text in texts]
            extract = attention_pb2.ExtractAttentionRequest(model=f"models/{LARGE}", inputs=inputs)
            name = f"ExtractAttention, {name}{also}"
            found.append(ClientCall(name, "ExtractAttention", extract, len(texts), asynchronous, reading=reading))
    found += [ClientCall("FillMask", "FillMask", _fill_mask(1), 1, asynchronous, callers=callers) for callers in SHARING]
    connecting = "connection and first FillMask"
    return [*found, ClientCall(connecting, "FillMask", _fill_mask(1), 1, asynchronous, connecting=True)]


def _fill_mask(count: int) -> Message:
    return cloze_pb2.FillMaskRequest(model=f"models/{SMALL}", texts=cloze_texts()[:count], top_k=5)


def measure_client(target: str, call: ClientCall, rounds: int, seconds: float) -> Costs:
    """Measures a call to a server, in a process of its own."""
    asked = call.request.SerializeToString()
    pair = Pair(target, call.method, asked, call.asynchronous, call.callers, call.reading, call.connecting, rounds, seconds)
    costs: Costs = run_module("benchmarks.host.stubs", pair, 2 * (1 + rounds) * seconds)
    print(f"{call.title}, {call.texts} a call: {statistics.median(costs.ratios):.2f} times the stub", file=sys.stderr)
    return costs


def client_table(found: Sequence[tuple[ClientCall, Costs]]) -> tuple[Table, list[dict[str, object]]]:
    """Returns calls and their costs as a table, and for machines: microseconds, round by round."""
    headings = ("call", "texts", "callers", "CPU us/call", "stub us/call", "ratio", "spread")
    rows, data = [], list[dict[str, object]]()
    for call, costs in found:
        ours, bare = ([1e6 * one for one in side] for side in (costs.ours, costs.bare))
        data.append({"call": call.title, "texts": call.texts, "callers": call.callers, "cpu_us": ours, "stub_cpu_us": bare})
        figures = [f"{statistics.median(side):,.0f}" for side in (ours, bare)]
        ratio = f"{statistics.median(costs.ratios):.2f}"
        rows.append((call.title, str(call.texts), str(call.callers), *figures, ratio, span(costs.ratios)))
    return Table("CPU of the calling process for a call, beside a bare stub that parses the reply", headings, rows), data
