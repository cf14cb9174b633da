"""Probes that TrainProbe sends, kept in a file and applied by the client; and requests of ApplyProbe that are refused."""

import itertools
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope_service.analyses import probes as plans

from tests.support.harness import Host

CLASSES = {"cat": "noun", "dog": "noun", "the": "article", "a": "article", "on": "preposition", "of": "preposition"}


def sentences(count: int, seed: int) -> list[bertscope.ProbeText]:
    generator, found = np.random.default_rng(seed), []
    for _ in range(count):
        words = generator.choice(list(CLASSES), size=6).tolist()
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        labels = [(CLASSES[word], int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True)]
        found.append(bertscope.ProbeText(" ".join(words), labels))
    return found


@pytest.fixture(scope="module")
def trained(host: Host) -> bertscope.ProbeResult:
    parts = {"dev": sentences(10, 2), "test": sentences(10, 3)}
    with bertscope.Client(host.target) as client:
        return client.train_probe(sentences(40, 1), **parts, weights=True, max_epochs=12, layers=[0, 2])


def test_a_kept_probe_has_the_scores_of_the_training(
    client: bertscope.Client, trained: bertscope.ProbeResult, tmp_path: Path
) -> None:
    bertscope.KeptProbe.of(trained).save(tmp_path / "probe")
    probe = bertscope.load_probe(tmp_path / "probe")
    assert (probe.labels, probe.layers, probe.pooling) == (trained.labels, (0, 2), "mean")
    assert (probe.weights_digest, probe.hidden_size) == (trained.provenance.weights_digest, trained.hidden_size)
    texts = sentences(10, 3)
    heard: list[bertscope.TextsProgress] = []
    found = client.apply_probe(probe, iter(texts), top_k=3, on_progress=heard.append)
    assert found.scored_spans == len(found.spans) == 60
    assert heard[-1].done == 10
    for own in trained.layers:
        assert found.accuracy(own.layer) == own.accuracy
        assert found.loss(own.layer) == pytest.approx(own.loss, abs=1e-3)
    np.testing.assert_array_equal(found.layer(trained.best_layer).confusion, trained.confusion)
    np.testing.assert_allclose(found.layer(2).probabilities.sum(axis=1), 1, atol=1e-5)
    parts = [client.apply_probe(probe, part, top_k=3) for part in (texts[:3], texts[3:])]
    merged = bertscope.AppliedProbe.merge(parts)
    np.testing.assert_array_equal(merged.layer(2).classes, found.layer(2).classes)
    assert [own.correct for own in merged.layers] == [own.correct for own in found.layers]


def with_heads(texts: list[bertscope.ProbeText]) -> list[bertscope.ProbeText]:
    """Pairs each word with the next one; the label is that of both words."""
    return [
        bertscope.ProbeText(
            text.text, [(f"{one[0]} {two[0]}", one[1:3], two[1:3]) for one, two in itertools.pairwise(text.labels)]
        )
        for text in texts
    ]


@pytest.mark.parametrize("units", [0, 8])
def test_probes_of_pairs_and_with_hidden_units_have_the_scores_of_the_training(
    client: bertscope.Client, units: int, tmp_path: Path
) -> None:
    texts = with_heads(sentences(10, 3))
    trained = client.train_probe(
        with_heads(sentences(40, 1)), dev=texts[:5], test=texts, weights=True, max_epochs=6, layers=[0, 2], hidden_units=units
    )
    bertscope.KeptProbe.of(trained).save(tmp_path / "probe")
    probe = bertscope.load_probe(tmp_path / "probe")
    assert (probe.pairs, probe.hidden_units, probe.hidden_size) == (True, units, trained.hidden_size)
    found = client.apply_probe(probe, texts)
    assert found.scored_spans == 50
    for own in trained.layers:
        assert found.accuracy(own.layer) == own.accuracy
        assert found.loss(own.layer) == pytest.approx(own.loss, abs=1e-3)
    first = texts[0].labels[0]
    assert found.spans[0].words == f"{texts[0].text[slice(*first[1:3])]} / {texts[0].text[slice(*first.other[:2])]}"
    unlabelled = bertscope.UnlabelledText(texts[0].text, [(first[1:3], first.other)])
    np.testing.assert_array_equal(client.apply_probe(probe, unlabelled).layer(2).classes[0], found.layer(2).classes[0])


@pytest.mark.parametrize("pairs", [False, True])
def test_spans_of_a_text_that_are_read_in_parts_are_those_read_at_once(
    client: bertscope.Client, pairs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, test = ((with_heads(part) if pairs else part) for part in (sentences(30, 1), sentences(8, 3)))

    def ask() -> tuple[bertscope.ProbeResult, bertscope.AppliedProbe]:
        trained = client.train_probe(train, dev=test[:4], test=test, weights=True, max_epochs=3, layers=[0, 2])
        return trained, client.apply_probe(bertscope.KeptProbe.of(trained), test)

    at_once, found_at_once = ask()
    monkeypatch.setattr(plans, "ROW_PIECES", 4)
    monkeypatch.setattr(plans, "SPANS_OF_A_PIECE", 0)
    in_parts, found = ask()
    for own, other in zip(in_parts.layers, at_once.layers, strict=True):
        assert own.loss == pytest.approx(other.loss, abs=1e-5)  # batches of other rows, in fp32
        assert own.accuracy == other.accuracy
    assert [span.words for span in found.spans] == [span.words for span in found_at_once.spans]
    np.testing.assert_allclose(found.layer(2).probabilities, found_at_once.layer(2).probabilities, atol=1e-5)


def test_labels_that_the_probe_has_not_seen_are_counted_apart(client: bertscope.Client, trained: bertscope.ProbeResult) -> None:
    probe = bertscope.KeptProbe.of(trained, 0)
    texts = [
        bertscope.ProbeText("the cat  sat", [("noun", 4, 7), ("verb", 9, 12), ("noun", 7, 9)]),
        bertscope.ProbeText("nothing here", []),
        bertscope.UnlabelledText("a dog", [(2, 5)]),
        bertscope.ProbeText("the cat " * 40, [("noun", 4, 7), ("noun", 316, 319)]),
    ]
    found = client.apply_probe(probe, texts, truncate=True)
    assert found.unseen_labels == (("verb", 1),)
    assert (found.scored_spans, found.empty_spans, found.truncated_spans) == (2, 1, 1)
    assert [(span.text, span.words, span.label) for span in found.spans] == [
        (0, "cat", "noun"), (0, "sat", "verb"), (2, "dog", None), (3, "cat", "noun")
    ]  # fmt: skip
    assert found.accuracy(0) == 1
    assert tuple(found.records()[2].values())[:7] == (0, 2, 2, 5, 0, "dog", None)
    with pytest.raises(bertscope.InvalidArgument, match="no text has a span"):
        client.apply_probe(probe, [texts[1]])


def test_a_model_with_other_weights_is_an_error_unless_allowed(
    client: bertscope.Client, trained: bertscope.ProbeResult
) -> None:
    probe = bertscope.KeptProbe.of(trained, 2)
    with pytest.raises(bertscope.FailedPrecondition) as error:
        client.apply_probe(probe, sentences(1, 1), model="models/roberta")
    assert error.value.reason == "OTHER_WEIGHTS"
    found = client.apply_probe(probe, sentences(1, 1), model="models/roberta", any_weights=True)
    assert len(found.spans) == 6
