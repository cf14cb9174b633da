"""Measures Inspect: the time to the predictions and to everything after a click, against the calls that it stands for, and
the bytes that it sends."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from statistics import median

import bertscope
import grpc
from bertscope import MapView
from bertscope.v1 import common_pb2
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.v1.inspection_pb2_grpc import InspectionServiceStub

from benchmarks.lib.measure import Claim, in_turn, milliseconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import serving
from benchmarks.lib.texts import bert_base, texts_of_lengths

OPTIONS = (ROUNDS,)
GOALS = {9: (0.050, 0.120), 83: (0.100, 0.200)}
"""Seconds to the predictions and to everything after a click, by tokens, on an idle machine of two cores."""

CLICKS = 20
"""Clicks of a round."""

PIXELS = 64
PICTURES = MapView(pixels=PIXELS, format="uint8")
CHANGE = bertscope.zero(2, [3])
LONG, MEGABYTE = 512, 1_000_000


def claims(options: Namespace) -> Iterator[Claim]:
    """Silences one head of the embedded model; both sides in turn."""
    rounds = options.rounds
    with serving() as server, bertscope.Client(server.target) as client:
        for length, goals in GOALS.items():
            (text,) = texts_of_lengths([length], mask=True)
            yield from _latencies(client, text, length, goals, rounds)
            yield _against(client, text, length, rounds)
            yield _against_compared(client, text, length, rounds)
    yield _bytes()


def _latencies(client: bertscope.Client, text: str, length: int, goals: Sequence[float], rounds: int) -> Iterator[Claim]:
    _click(client, text)
    taken = [[_click(client, text) for _ in range(CLICKS)] for _ in range(rounds)]
    for place, (what, goal) in enumerate(zip(("the predictions", "everything"), goals, strict=True)):
        medians = [median(click[place] for click in clicks) for clicks in taken]
        name = f"Inspect, two runs and pictures of all heads, {length} tokens: median time to {what} / goal"
        yield share(name, medians, [goal] * rounds, milliseconds, "at most 1")


def _click(client: bertscope.Client, text: str) -> tuple[float, float]:
    """Returns the seconds to the predictions and to everything."""
    began = time.perf_counter()
    with client.stream_inspection(text, interventions=CHANGE, compare_untouched=True, maps=PICTURES) as events:
        assert isinstance(next(events), bertscope.InspectionStart)
        predicted = time.perf_counter() - began
        assert events.table().distances is not None
    return predicted, time.perf_counter() - began


def _against(client: bertscope.Client, text: str, length: int, rounds: int) -> Claim:
    def ours() -> None:
        for _ in range(CLICKS):
            client.inspect(text, interventions=CHANGE, maps=PICTURES)

    def theirs() -> None:
        for _ in range(CLICKS):
            client.fill_mask(text, interventions=CHANGE)
            list(client.extract_attention(text, interventions=CHANGE, dtype="float16"))

    what = f"Inspect, one run, {length} tokens / FillMask and ExtractAttention in turn"
    return in_turn(ours, theirs, rounds).claim(what, "at least 1.3x", _a_click)


def _against_compared(client: bertscope.Client, text: str, length: int, rounds: int) -> Claim:
    def ours() -> None:
        for _ in range(CLICKS):
            client.inspect(text, interventions=CHANGE, compare_untouched=True, divergences=True, maps=PICTURES)

    def theirs() -> None:
        for _ in range(CLICKS):
            client.fill_mask(text)
            client.fill_mask(text, interventions=CHANGE)
            client.compare_attention(text, interventions=CHANGE)
            list(client.extract_attention(text, interventions=CHANGE, dtype="float16"))

    what = f"Inspect, two runs, {length} tokens / FillMask twice, CompareAttention and ExtractAttention in turn"
    return in_turn(ours, theirs, rounds).claim(what, "at least 1.5x", _a_click)


def _bytes() -> Claim:
    """Counts the bytes of all messages of a click, of a model with 12 x 12 heads."""
    (text,) = texts_of_lengths([LONG], mask=True)
    zero = common_pb2.HeadIntervention(layer=2, heads=[3], mode=common_pb2.HeadIntervention.MODE_ZERO)
    pictures = inspection.MapView(pixels=PIXELS, format=inspection.MAP_FORMAT_UINT8)
    request = inspection.InspectRequest(
        input=common_pb2.TextInput(text=text), interventions=[zero], compare_untouched=True, maps=[pictures]
    )
    with (
        bert_base() as folder,
        serving("--model", f"bert-base={folder}") as server,
        grpc.insecure_channel(server.target) as channel,
    ):
        sent = sum(response.ByteSize() for response in InspectionServiceStub(channel).Inspect(request))
    what = f"Inspect, bytes of 12 x 12 heads at {LONG} tokens, pictures of {PIXELS} pixels / 1 MB"
    return share(what, [sent], [MEGABYTE], lambda size: f"{size / 1000:.0f} kB", "at most 1")


def _a_click(seconds: float) -> str:
    return milliseconds(seconds / CLICKS)
