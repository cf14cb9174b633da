"""TrainProbe through gRPC, beside scores that numpy computes from the states that ExtractHiddenStates sends."""

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope_service.probing import lbfgs
from bertscope_service.probing.kinds import Size, mixing_shares
from bertscope_service.probing.states import SpanStates
from bertscope_service.probing.training import AdamProbes, Settings
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from tests.support.harness import Host, refused
from tests.support.probes import DEV, TEST, noisy, request, texts, train, vectors
from tests.support.sweeps import matrix


def scores_of(own: probes.ProbeWeights, values: NDArray[Any]) -> NDArray[Any]:
    """The scores of the classes by the weights sent."""
    scores = values @ matrix(own.weights) + matrix(own.biases)
    return np.maximum(scores, 0) @ matrix(own.output_weights) + matrix(own.output_biases) if own.output_biases.shape else scores


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pooling", "units"), [("MEAN", 0), ("FIRST", 0), ("LAST", 0), pytest.param("MEAN", 5, marks=pytest.mark.slow)]
)
def test_scores_are_those_of_the_weights_sent(host: Host, pooling: str, units: int) -> None:
    fields = {"hidden_units": units, "max_epochs": 40} if units else {}
    answer = train(host, pooling=f"POOLING_{pooling}", weights=True, seeds=2, layers=[4, 0, 2], **fields)
    report = answer.report
    assert [layer.layer for layer in report.layers] == [own.layer for own in answer.weights] == [0, 2, 4]
    for part, field in ((DEV, "dev"), (TEST, "test")):
        values, labels = vectors(host, part, pooling)
        for layer, own in zip(report.layers, answer.weights, strict=True):
            scores = scores_of(own, values[:, layer.layer])
            losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(labels)), labels]
            score = getattr(layer.task[0], field)
            assert score.correct == (scores.argmax(axis=1) == labels).sum()
            assert score.loss == pytest.approx(losses.mean(), abs=1e-3)
            if layer.layer == report.best_layer and field == "test":
                confusion = np.zeros((3, 3), dtype=np.int64)
                np.add.at(confusion, (labels, scores.argmax(axis=1)), 1)
                assert list(report.confusion) == confusion.ravel().tolist()
    assert [run.seed for run in report.layers[0].control] == [0, 1]
    assert report.layers[0].task[0].test.correct == 60  # the embeddings tell words apart
    assert report.train.spans == 240
    assert report.test.label_spans[report.majority_label] == report.test.majority_correct
    stages = [event.stage for event in answer.progress]
    assert stages == sorted(stages)
    assert answer.progress[-1].best_dev_accuracy == 1


@pytest.mark.slow
@pytest.mark.parametrize("test", [TEST, []], ids=["test", "dev"])
def test_texts_are_counted_by_their_spans_and_the_correct_ones(host: Host, test: Sequence[probes.ProbeText]) -> None:
    answer = train(host, weights=True, layers=[1, 3], test=test, max_epochs=2)
    part = test or DEV
    values, labels = vectors(host, part, "MEAN")
    ends = np.cumsum([len(text.spans) for text in part])[:-1]
    for layer, own in zip(answer.report.layers, answer.weights, strict=True):
        right = scores_of(own, values[:, layer.layer]).argmax(axis=1) == labels
        counted = Counter((len(text), int(text.sum())) for text in np.split(right, ends))
        assert [(each.spans, each.correct, each.texts) for each in layer.hits] == [
            (*key, counted[key]) for key in sorted(counted)
        ]


def test_seeds_and_mixes_have_the_hits_of_all_of_their_probes(host: Host) -> None:
    report = train(host, seeds=2, mix=True, layers=[0, 2], max_epochs=3).report
    for layer in (*report.layers, *report.mix.cumulative):
        assert sum(each.correct * each.texts for each in layer.hits) == sum(run.test.correct for run in layer.task)
        assert sum(each.spans * each.texts for each in layer.hits) == report.test.spans


@pytest.mark.slow
def test_training_finds_the_optimum_of_logistic_regression() -> None:
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 3, 400)
    values = (generator.normal(size=(400, 2, 8)) + generator.normal(size=(3, 2, 8))[labels]).astype(np.float32)
    found = SpanStates(values.shape, torch.device("cpu"), on_disk=False)
    found.add(values)
    found.measure(slice(0, 400))
    found.standardise(400)
    inputs, gold = found.read(slice(0, 400)), torch.from_numpy(labels)[:, None]
    np.testing.assert_allclose(inputs.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose(inputs.std(0, correction=0), 1, atol=1e-5)
    settings = Settings(l2=40, max_epochs=80, patience=8)
    probe = AdamProbes(Size(2, 8, 1, 3), 400, settings, (0,), torch.device("cpu"))
    shuffle = torch.Generator().manual_seed(0)
    more = True
    while more:
        for chosen in torch.randperm(400, generator=shuffle).split(50):
            probe.step(inputs[chosen], gold[chosen])
        _, losses = probe.evaluate(inputs, gold)
        penalty = [0.5 * 40 / 400 * float(probe.parameters[0].detach()[layer].square().sum()) for layer in range(2)]
        score = type(probe.best_dev)(np.zeros((2, 1), dtype=np.int64), losses.numpy() / 400 + np.array(penalty)[:, None])
        more = probe.end_epoch(score)
    probe.end()
    for layer in range(2):
        peer = LogisticRegression(C=1 / 40, tol=1e-6, max_iter=5000).fit(inputs[:, layer].numpy(), labels)
        least = log_loss(labels, peer.predict_proba(inputs[:, layer].numpy())) + 0.5 * 40 / 400 * np.square(peer.coef_).sum()
        assert probe.best_dev.loss[layer, 0] == pytest.approx(least, abs=2e-3)
        np.testing.assert_allclose(probe.parameters[0].detach()[layer, :, 0], peer.coef_.T, atol=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("l2", [1.0, 30.0])
def test_probes_at_the_minimum_are_those_of_scikit_learn(host: Host, l2: float) -> None:
    train_part, test_part = noisy(100, 1), noisy(80, 3)
    answer = train(host, train=train_part, test=test_part, ending=request().ENDING_MINIMUM, l2=l2, max_epochs=0, weights=True)
    (values, gold), (test_values, test_gold) = vectors(host, train_part, "MEAN"), vectors(host, test_part, "MEAN")
    ours, theirs, losses = [], [], []
    for layer, own in zip(answer.report.layers, answer.weights, strict=True):
        inputs = values[:, layer.layer].astype(np.float64)
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        peer = LogisticRegression(C=1 / l2, tol=1e-5, max_iter=5000).fit((inputs - mean) / scale, gold)
        theirs.append(peer.score((test_values[:, layer.layer] - mean) / scale, test_gold))
        (run,) = layer.task
        ours.append(run.test.correct / len(test_gold))
        losses.append((run.test.loss, log_loss(test_gold, peer.predict_proba((test_values[:, layer.layer] - mean) / scale))))
        assert 0 < run.gradient <= lbfgs.GRADIENT
        np.testing.assert_allclose(matrix(own.weights) * scale[:, None], peer.coef_.T, atol=0.02)
    np.testing.assert_allclose(ours, theirs, atol=0.005)
    np.testing.assert_allclose(*np.transpose(losses), atol=2e-3)
    assert max(ours) - min(ours) > 0.02
    for above, below in itertools.permutations(range(len(ours)), 2):
        assert ours[above] > ours[below] or theirs[above] <= theirs[below] + 0.005


def test_mixing_weights_find_the_layer_that_was_planted() -> None:
    generator = np.random.default_rng(4)
    gold = generator.integers(0, 3, 600)
    values = generator.normal(size=(600, 4, 8)).astype(np.float32)
    values[:, 2] += generator.normal(size=(3, 8))[gold]
    inputs, labels = torch.from_numpy(values), torch.from_numpy(gold)[:, None]
    probe = AdamProbes(Size(4, 8, 1, 3, mix=True, states=4), 600, Settings(l2=10), (0,), torch.device("cpu"))
    order = torch.Generator().manual_seed(0)
    for _ in range(40):
        for chosen in torch.randperm(600, generator=order).split(50):
            probe.step(inputs[chosen], labels[chosen])
    shares = mixing_shares(probe.parameters[0].detach(), 0)[..., 0, 0]
    assert shares[3, 2] > 0.8
    assert shares[2, 2] > 0.8
    torch.testing.assert_close(shares.sum(1), torch.ones(4))
    assert torch.equal(shares.triu(1), torch.zeros(4, 4))  # a mix reads no layer above its own
    correct, _ = probe.evaluate(inputs, labels)
    assert correct[1, 0] < 320
    assert correct[2, 0] > 480


def test_passes_that_end_too_early_are_reported(host: Host) -> None:
    report = train(host, train=noisy(20, 1), ending=request().ENDING_MINIMUM, max_epochs=3, l2=0.0).report
    assert all(run.gradient > lbfgs.GRADIENT and run.best_epoch <= 3 for layer in report.layers for run in layer.task)


@pytest.mark.slow
def test_pairs_are_two_vectors_one_after_the_other(host: Host) -> None:
    """Whether a word is the one before it: no vector alone has that."""

    def paired(count: int, seed: int) -> list[probes.ProbeText]:
        found = texts(count, seed)
        for text in found:
            spans = list(text.spans)
            del text.spans[:]
            for first, second in itertools.pairwise(spans):
                text.spans.add(span=first.span, other=second.span, label=(first.label + second.label) % 3)
        return found

    parts = {"train": paired(60, 1), "dev": paired(10, 2), "test": paired(20, 3)}
    answer = train(host, **parts, layers=[0, 2], weights=True)
    singles = [probes.ProbeText(input=text.input, spans=[{"span": one.span}]) for text in parts["test"] for one in text.spans]
    seconds = [probes.ProbeText(input=text.input, spans=[{"span": one.other}]) for text in parts["test"] for one in text.spans]
    values = np.concatenate([vectors(host, own, "MEAN")[0] for own in (singles, seconds)], axis=2)
    gold = np.array([one.label for text in parts["test"] for one in text.spans])
    for layer, own in zip(answer.report.layers, answer.weights, strict=True):
        scores = values[:, layer.layer] @ matrix(own.weights) + matrix(own.biases)
        assert layer.task[0].test.correct == (scores.argmax(axis=1) == gold).sum()
    assert answer.report.test.spans == 100
    mixed = paired(2, 5)
    mixed[1].spans[0].ClearField("other")
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        train(host, train=mixed, dev=parts["dev"])
    assert (failures[0].fields, failures[0].info.reason) == (["train[1].spans[0].other"], "PAIRS_MIXED")


def test_spans_without_a_piece_are_left_out_and_counted(host: Host) -> None:
    (long,) = texts(1, 9, length=100)
    gap = probes.ProbeText(input={"text": "the  cat"}, spans=[{"span": {"start": 3, "end": 5}}])
    report = train(host, test=[long, gap, TEST[0]], truncate=True, layers=[0]).report
    assert report.test.empty_spans == 1
    assert report.test.truncated_spans == 100 - 62
    assert report.test.spans == 62 + 6
