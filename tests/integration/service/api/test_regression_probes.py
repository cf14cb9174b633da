"""TrainProbe of numbers, beside least squares that numpy solves in float64 from the states that ExtractHiddenStates sends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bertscope.v1 import representation_probes_pb2 as probes
from bertscope_service.probing import lbfgs
from numpy.typing import NDArray

from tests.support.harness import Host
from tests.support.probes import request, texts, train, vectors
from tests.support.sweeps import matrix

VALUES = {"cat": 4.0, "mat": 9.5, "dog": 5.0, "the": -20.0, "a": -22.0, "on": 1.0, "of": 2.0, "in": 3.0}
MEAN, FAR = 1000.0, 1e6


def valued(count: int, seed: int) -> list[probes.ProbeText]:
    """Sentences of random words, each with a number of its own that its place and a normal draw move."""
    generator = np.random.default_rng([seed, 7])
    found = texts(count, seed)
    for text in found:
        for place, entry in enumerate(text.spans):
            word = text.input.text[entry.span.start : entry.span.end]
            entry.label = 0
            entry.value = MEAN + VALUES[word] + 3 * place + generator.normal()
    return found


TRAIN, DEV, TEST = valued(60, 1), valued(15, 2), valued(20, 3)
PARTS: dict[str, Any] = {"train": TRAIN, "dev": DEV, "test": TEST, "labels": []}
MINIMUM = {"ending": request().ENDING_MINIMUM, "max_epochs": 0}


def numbers(part: list[probes.ProbeText]) -> NDArray[np.float64]:
    return np.array([entry.value for text in part for entry in text.spans])


def ridge(states: NDArray[Any], gold: NDArray[np.float64], l2: float) -> Callable[[NDArray[Any]], NDArray[np.float64]]:
    """Returns predictions of the closed form: states are standardised, the mean is not penalised."""
    states = states.astype(np.float64)
    mean, scale, centre = states.mean(axis=0), states.std(axis=0), gold.mean()
    inputs = (states - mean) / scale
    weights = np.linalg.solve(inputs.T @ inputs + l2 * np.eye(inputs.shape[1]), inputs.T @ (gold - centre))
    return lambda others: (others.astype(np.float64) - mean) / scale @ weights + centre


@pytest.mark.parametrize("l2", [1.0, 30.0])
@pytest.mark.parametrize("longest", [1024, 0])
def test_probes_at_the_minimum_are_the_closed_form(
    host: Host, l2: float, longest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With second moments of the states, by one step and some of rounding, and without."""
    monkeypatch.setattr(lbfgs, "MAX_HIDDEN", longest)
    answer = train(host, **PARTS, **MINIMUM, l2=l2, weights=True, layers=[0, 2, 4])
    states, others = (vectors(host, part, "MEAN")[0] for part in (TRAIN, TEST))
    gold, test = numbers(TRAIN), numbers(TEST)
    for layer, own in zip(answer.report.layers, answer.weights, strict=True):
        theirs = ridge(states[:, layer.layer], gold, l2)(others[:, layer.layer])
        ours = (others[:, layer.layer].astype(np.float64) @ matrix(own.weights) + matrix(own.biases))[:, 0]
        np.testing.assert_allclose(ours, theirs, atol=0.01)
        (run,) = layer.task
        assert run.gradient <= lbfgs.GRADIENT
        assert run.test.loss == pytest.approx(np.mean((theirs - test) ** 2), rel=2e-3)
        assert run.test.variance == pytest.approx(test.var(), rel=1e-5)
        errors = [each.sum() for each in np.split((theirs - test) ** 2, len(TEST))]
        np.testing.assert_allclose(layer.errors, errors, rtol=0.02, atol=0.01)


@pytest.mark.slow
def test_dev_texts_end_training(host: Host) -> None:
    """Two seeds differ in the control task alone, whose numbers can't be read from words that are new in the test."""
    answer = train(host, **PARTS, seeds=2, max_epochs=40)
    report = answer.report
    assert report.train.value_mean == pytest.approx(numbers(TRAIN).mean())
    assert report.test.value_variance == pytest.approx(numbers(TEST).var())
    assert len(report.values) == len(TEST)
    assert sum(each.squares for each in report.values) == pytest.approx(numbers(TEST).var() * report.test.spans)
    assert sum(each.sum for each in report.values) == pytest.approx(0, abs=1e-6)
    assert (list(report.confusion), list(report.test.label_spans), report.test.majority_correct) == ([], [], 0)
    for layer in report.layers:
        assert sum(layer.errors) == pytest.approx(sum(run.test.loss for run in layer.task) * report.test.spans)
        assert not layer.hits
        first, second = layer.task
        assert first.test.loss == pytest.approx(second.test.loss, rel=0.02)
        assert layer.control[0].test.variance != layer.control[1].test.variance
    shares = [1 - layer.task[0].test.loss / layer.task[0].test.variance for layer in report.layers]
    assert max(shares) > 0.9
    assert min(layer.task[0].dev.loss for layer in report.layers) == report.layers[report.best_layer].task[0].dev.loss
    bests = [event.best_dev_accuracy for event in answer.progress]
    assert bests == sorted(bests)
    split = train(host, train=TRAIN, dev=[], test=[], labels=[]).report
    assert (split.train.texts, split.dev.texts, len(split.values)) == (54, 6, 6)
    assert not split.layers[0].task[0].HasField("test")
    assert bests[-1] == pytest.approx(max(1 - one.task[0].dev.loss / one.task[0].dev.variance for one in report.layers))


@pytest.mark.slow
def test_a_hidden_layer_learns_numbers(host: Host) -> None:
    answer = train(host, **PARTS, hidden_units=8, max_epochs=60, patience=20, weights=True, layers=[0, 4])
    others, gold = vectors(host, TEST, "MEAN")[0], numbers(TEST)
    for layer, own in zip(answer.report.layers, answer.weights, strict=True):
        hidden = np.maximum(others[:, layer.layer] @ matrix(own.weights) + matrix(own.biases), 0)
        found = (hidden @ matrix(own.output_weights).astype(np.float64) + matrix(own.output_biases))[:, 0]
        assert layer.task[0].test.loss == pytest.approx(np.mean((found - gold) ** 2), rel=2e-3)
    assert min(layer.task[0].test.loss / layer.task[0].test.variance for layer in answer.report.layers) < 0.5


@pytest.mark.slow
def test_the_unit_of_the_numbers_does_not_matter(host: Host) -> None:
    def scaled(part: list[probes.ProbeText]) -> list[probes.ProbeText]:
        found = []
        for text in part:
            own = probes.ProbeText()
            own.CopyFrom(text)
            for entry in own.spans:
                entry.value = FAR * (entry.value - MEAN)
            found.append(own)
        return found

    usual = train(host, **PARTS, layers=[2], max_epochs=20).report.layers[0]
    moved = {name: scaled(part) for name, part in PARTS.items() if part}
    other = train(host, **moved, labels=[], layers=[2], max_epochs=20).report.layers[0]
    for one, same in ((usual.task, other.task), (usual.control, other.control)):
        assert same[0].test.loss == pytest.approx(FAR**2 * one[0].test.loss, rel=1e-3)
