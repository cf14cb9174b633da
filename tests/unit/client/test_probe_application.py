"""Kept probes: files of them, the request that applies them, and replies that break the contract."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope.questions.probes.application_requests import apply_probe_request
from bertscope.questions.probes.probe_application import asked_span_texts, read_applied, with_probe, with_span_texts
from bertscope.v1.representation_probe_application_pb2 import ApplyProbeRequest, ApplyProbeResponse

WEIGHTS = {layer: (np.full((4, 2), layer, np.float32), np.zeros(2, np.float32)) for layer in (3, 0)}
PROBE = bertscope.KeptProbe(("DET", "NOUN"), WEIGHTS, "first", "models/m", "sha256:0")
TEXT = bertscope.ProbeText(("The cat", "sleeps"), [("NOUN", 4, 7), ("VERB", 0, 6, 1)])


def request(probe=PROBE, *, layers=None, any_weights=False, **fields) -> ApplyProbeRequest:
    return with_probe(apply_probe_request(**fields), probe, layers=layers, any_weights=any_weights)


def test_a_file_of_probes_is_what_was_saved(tmp_path: Path) -> None:
    PROBE.save(tmp_path / "a.npz")
    found = bertscope.load_probe(tmp_path / "a.npz")
    assert (found.labels, found.layers, found.pooling, found.model) == (PROBE.labels, (0, 3), "first", "models/m")
    for layer in (0, 3):
        np.testing.assert_array_equal(found.weights[layer][0], WEIGHTS[layer][0])
    assert len(repr(found)) < 240


@pytest.mark.parametrize("content", ["text", "pickle", "arrays", "cut"])
def test_a_file_of_something_else_is_an_error_that_names_it(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.npz"
    if content == "text":
        path.write_text("no probe", encoding="utf-8")
    elif content == "pickle":
        np.save(path.open("wb"), np.array([{}], dtype=object), allow_pickle=True)
    elif content == "arrays":
        np.savez(path, layers=np.zeros(1))
    else:
        PROBE.save(path)
        path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(bertscope.InvalidArgument, match=r"a\.npz"):
        bertscope.load_probe(path)
    with pytest.raises(FileNotFoundError):
        bertscope.load_probe(tmp_path / "missing.npz")


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("layers", {"layers": [1]}),
        ("top_k", {"top_k": 0}),
        ("probe", {"probe": "upos.npz"}),
        ("any_weights", {"any_weights": 1}),
    ],
)
def test_what_cannot_be_sent(field: str, fields: dict[str, object]) -> None:
    with pytest.raises(bertscope.InvalidArgument) as error:
        request(**fields)
    assert error.value.field_violations[0].field == field


PAIRS = bertscope.KeptProbe(PROBE.labels, WEIGHTS, "first", "models/m", "sha256:0", pairs=True)
PAIR = bertscope.ProbeText("The cat", [("det", (0, 3), (4, 7))])


def test_pairs_go_with_probes_of_pairs() -> None:
    with pytest.raises(bertscope.InvalidArgument, match=r"texts\[1\].labels\[0\]: is of a pair of parts"):
        asked_span_texts([TEXT, PAIR], PROBE)
    with pytest.raises(bertscope.InvalidArgument, match="takes pairs"):
        asked_span_texts([PAIR, bertscope.UnlabelledText("A dog", [(2, 5)])], PAIRS)
    asked = asked_span_texts([PAIR, bertscope.UnlabelledText("A dog", [((0, 1), (2, 5))])], PAIRS)
    message = with_span_texts(request(PAIRS), list(asked.items))
    assert [(text.spans[0].span.start, text.spans[0].other.end) for text in message.inputs] == [(0, 7), (0, 5)]


def test_hidden_units_are_kept(tmp_path: Path) -> None:
    arrays = tuple(np.ones(shape, np.float32) for shape in ((4, 3), (3,), (3, 2), (2,)))
    kept = bertscope.KeptProbe(PROBE.labels, {1: arrays}, "mean", "models/m", "sha256:0", pairs=True)
    kept.save(tmp_path / "a.npz")
    found = bertscope.load_probe(tmp_path / "a.npz")
    assert (found.hidden_units, found.hidden_size, found.pairs, PROBE.hidden_units) == (3, 2, True, 0)
    assert [tensor.shape for tensor in (request(found).probes[0].output_weights, request(found).probes[0].output_biases)] == [
        [3, 2], [2]
    ]  # fmt: skip
    with pytest.raises(bertscope.InvalidArgument, match=r"weights\[2\]: has shapes"):
        bertscope.KeptProbe(PROBE.labels, {1: arrays, 2: arrays[:2]}, "mean", "models/m", "sha256:0")
    odd = {1: (np.ones((3, 2), np.float32), np.ones(2, np.float32))}
    with pytest.raises(bertscope.InvalidArgument, match="two states long"):
        bertscope.KeptProbe(PROBE.labels, odd, "mean", "models/m", "sha256:0", pairs=True)


def test_weights_that_do_not_fit_the_labels_are_no_probe() -> None:
    with pytest.raises(bertscope.InvalidArgument, match="3 labels"):
        bertscope.KeptProbe(("a", "b", "c"), WEIGHTS, "mean", "models/m", "sha256:0")


def test_replies_are_read_and_checked() -> None:
    asked = request(layers=[3])
    assert asked.weights_digest == "sha256:0"
    assert not request(any_weights=True).weights_digest
    texts = list(asked_span_texts([TEXT, bertscope.UnlabelledText("A dog", [(2, 5)])], PROBE).items)
    message = with_span_texts(asked, texts)
    assert [span.label if span.HasField("label") else None for text in message.inputs for span in text.spans] == [1, None, None]
    uses = [ApplyProbeResponse.USE_CLASSIFIED] * 2 + [ApplyProbeResponse.USE_EMPTY]
    answers = {"layer": 3, "classes": [1, 0], "probabilities": [0.9, 0.6], "correct": 1, "loss": 0.1}
    answers["confusions"] = [{"label": 1, "answer": 1, "spans": 1}]
    reply = ApplyProbeResponse(uses=uses, labelled_spans=1, layers=[answers])
    found = read_applied(reply, message, texts)
    assert (found.accuracy(3), found.empty_spans, found.unseen_labels) == (1, 1, (("VERB", 1),))
    assert [span.words for span in found.spans] == ["cat", "sleeps"]
    assert found.rows()[0] == (3, 0, 4, 7, 0, "cat", "NOUN", "NOUN", pytest.approx(0.9))
    assert list(found.to_pandas()["answer"]) == ["NOUN", "DET"]
    for broken in (
        ApplyProbeResponse(uses=uses[:2], labelled_spans=1, layers=[answers]),
        ApplyProbeResponse(uses=uses, labelled_spans=2, layers=[answers]),
        ApplyProbeResponse(uses=uses, labelled_spans=1, layers=[answers | {"layer": 0}]),
        ApplyProbeResponse(uses=uses, labelled_spans=1, layers=[answers | {"classes": [1, 2]}]),
        ApplyProbeResponse(uses=uses, labelled_spans=1, layers=[answers | {"classes": [1]}]),
    ):
        with pytest.raises(bertscope.BertscopeError, match="the server"):
            read_applied(broken, message, texts)
