"""Compares the CPU time of a client's calls with a bare stub's: `Client` with `grpc`, `AsyncClient` with `grpc.aio`."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bertscope.v1 import attention_pb2, classification_pb2, cloze_pb2, common_pb2
from google.protobuf.message import Message
from rich.console import Console
from rich.table import Table

from benchmarks.host.calls import Costs, Pair, compare
from benchmarks.host.questions import LABELS, LARGE, SMALL, TEXTS_PER_CALL
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


@dataclass(frozen=True, slots=True)
class ClientCell:
    """A call and its costs."""

    call: ClientCall
    costs: Costs

    @property
    def ratios(self) -> list[float]:
        """The client's CPU over the stub's, round by round."""
        return [ours / bare for ours, bare in zip(self.costs.ours, self.costs.bare, strict=True)]

    def summary(self) -> dict[str, object]:
        """Returns medians over the rounds."""
        return {
            "call": self.call.title,
            "texts": self.call.texts,
            "callers": self.call.callers,
            "cpu_us": 1e6 * statistics.median(self.costs.ours),
            "stub_cpu_us": 1e6 * statistics.median(self.costs.bare),
            "ratio": statistics.median(self.ratios),
            "spread": (min(self.ratios), max(self.ratios)),
        }


def measure_clients(target: str, calls: Sequence[ClientCall], rounds: int, seconds: float) -> list[ClientCell]:
    """Measures calls to a server."""
    cells = []
    for call in calls:
        pair = Pair(
            target=target,
            method=call.method,
            request=call.request.SerializeToString(),
            asynchronous=call.asynchronous,
            callers=call.callers,
            reading=call.reading,
            connecting=call.connecting,
            rounds=rounds,
            seconds=seconds,
        )
        cells.append(ClientCell(call, compare(pair)))
        found = cells[-1].summary()
        print(f"{call.title}, {call.texts} a call: {found['ratio']:.2f} times the stub", file=sys.stderr)
    return cells


def print_clients(console: Console, cells: Sequence[ClientCell]) -> None:
    table = Table(title="CPU of the calling process for a call, beside a bare stub that parses the reply")
    for heading in ("call", "texts", "callers", "CPU us/call", "stub us/call", "ratio", "spread"):
        table.add_column(heading, justify="left" if heading == "call" else "right")
    for cell in cells:
        found = cell.summary()
        numbers = [f"{found[name]:,.0f}" for name in ("texts", "callers", "cpu_us", "stub_cpu_us")]
        table.add_row(cell.call.title, *numbers, f"{found['ratio']:.2f}", f"{min(cell.ratios):.2f} to {max(cell.ratios):.2f}")
    console.print(table)
