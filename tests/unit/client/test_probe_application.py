"""Kept probes: files of them, the request that applies them, and replies that break the contract."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.applied_probes import asked_span_texts, read_applied, with_probe, with_span_texts
from bertscope.v1.representation_probe_application_pb2 import ApplyProbeRequest, ApplyProbeResponse
from bertscope.values.requests import request_of

from tests.support.broken_replies import refusals

WEIGHTS = {layer: (np.full((4, 2), layer, np.float32), np.zeros(2, np.float32)) for layer in (3, 0)}
PROBE = bertscope.KeptProbe(("DET", "NOUN"), WEIGHTS, "first", "models/m", "sha256:0")
TEXT = bertscope.ProbeText(("The cat", "sleeps"), [("NOUN", 4, 7), ("VERB", 0, 6, 1)])


def request(probe=PROBE, *, layers=None, any_weights=False, **fields) -> ApplyProbeRequest:
    return with_probe(request_of(ApplyProbeRequest, **({"top_k": 1} | fields)), probe, layers=layers, any_weights=any_weights)


PAIRS = bertscope.KeptProbe(PROBE.labels, WEIGHTS, "first", "models/m", "sha256:0", pairs=True)
PAIR = bertscope.ProbeText("The cat", [("det", (0, 3), (4, 7))])


def test_files_of_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    arrays = tuple(np.ones(shape, np.float32) for shape in ((4, 3), (3,), (3, 2), (2,)))
    odd = {1: (np.ones((3, 2), np.float32), np.ones(2, np.float32))}
    hidden = bertscope.KeptProbe(PROBE.labels, {1: arrays}, "mean", "models/m", "sha256:0", pairs=True)
    PROBE.save("a.npz")
    hidden.save("hidden.npz")
    Path("text.npz").write_text("no probe", encoding="utf-8")
    with Path("pickle.npz").open("wb") as file:
        np.save(file, np.array([{}], dtype=object), allow_pickle=True)
    np.savez("arrays.npz", layers=np.zeros(1))
    Path("cut.npz").write_bytes(Path("a.npz").read_bytes()[:200])

    def kept(labels: tuple[str, ...], weights: dict, **more: bool) -> bertscope.KeptProbe:
        return bertscope.KeptProbe(labels, weights, "mean", "models/m", "sha256:0", **more)

    stored(
        loaded=bertscope.load_probe("a.npz"),
        hidden=bertscope.load_probe("hidden.npz"),
        shown=repr(PROBE),
        request=request(hidden),
        refused=[
            *(lambda name=name: bertscope.load_probe(f"{name}.npz") for name in ("text", "pickle", "arrays", "cut", "missing")),
            lambda: kept(PROBE.labels, {1: arrays, 2: arrays[:2]}),
            lambda: kept(PROBE.labels, odd, pairs=True),
            lambda: kept(("a", "b", "c"), WEIGHTS),
            lambda: request(layers=[1]),
            lambda: request(probe="upos.npz"),
            lambda: request(any_weights=1),
        ],
    )


def test_pairs_go_with_probes_of_pairs(stored) -> None:
    unlabelled = bertscope.UnlabelledText("A dog", [((0, 1), (2, 5))])
    asked = asked_span_texts([PAIR, unlabelled], PAIRS)
    stored(
        inputs=list(with_span_texts(request(PAIRS), list(asked.items)).inputs),
        refused=[
            lambda: asked_span_texts([TEXT, PAIR], PROBE),
            lambda: asked_span_texts([PAIR, bertscope.UnlabelledText("A dog", [(2, 5)])], PAIRS),
        ],
    )


def test_replies_are_read_and_checked(stored) -> None:
    texts = list(asked_span_texts([TEXT, bertscope.UnlabelledText("A dog", [(2, 5)])], PROBE).items)
    message = with_span_texts(request(layers=[3]), texts)
    uses = [ApplyProbeResponse.USE_CLASSIFIED] * 2 + [ApplyProbeResponse.USE_EMPTY]
    answers = {"layer": 3, "classes": [1, 0], "probabilities": [0.9, 0.6], "correct": 1, "loss": 0.1}
    answers["confusions"] = [{"label": 1, "answer": 1, "spans": 1}]
    reply = ApplyProbeResponse(uses=uses, labelled_spans=1, layers=[answers])
    found = read_applied(reply, message, texts)
    stored(
        request=message,
        any_weights=request(any_weights=True).weights_digest,
        applied=found,
        accuracy=found.accuracy(3),
        broken=refusals(lambda messages: read_applied(*messages, message, texts), reply),
    )
