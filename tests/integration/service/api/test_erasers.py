"""TrainEraser through gRPC, beside scikit-learn on the states that ExtractHiddenStates sends."""

from typing import Any

import numpy as np
import pytest
from bertscope.v1 import representation_eraser_pb2 as erasers
from bertscope.v1 import representation_probes_pb2 as probes
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tests.support.erasers import TEST, TRAIN, applied, arrays, erase
from tests.support.harness import Host
from tests.support.probes import LABELS, vectors

Request = erasers.TrainEraserRequest


def correct(train: NDArray[Any], labels: NDArray[Any], test: NDArray[Any], gold: NDArray[Any], scale: NDArray[Any]) -> int:
    """The test spans that scikit-learn's probe classifies correctly; states are divided by `scale`."""
    probe = LogisticRegression(tol=1e-6, max_iter=5000).fit(train / scale, labels)
    return int((probe.predict(test / scale) == gold).sum())


@pytest.mark.slow
def test_leace_leaves_probes_the_most_frequent_class(host: Host) -> None:
    found = erase(host, layers=[4, 1])
    report = found.report
    assert [own.layer for own in found.erasers] == [1, 4]
    assert report.method == Request.METHOD_LEACE
    assert report.pooling == probes.TrainProbeRequest.POOLING_MEAN
    assert (report.train.spans, report.test.spans, report.hidden_size) == (360, 120, 32)
    assert not report.HasField("dev")
    assert not report.on_disk
    (train, labels), (test, gold) = vectors(host, TRAIN, "MEAN"), vectors(host, TEST, "MEAN")
    assert report.majority_label == np.bincount(labels).argmax()
    assert report.test.majority_correct == (gold == report.majority_label).sum()
    for own in found.erasers:
        states, tested = train[:, own.layer], test[:, own.layer]
        scale = states.std(axis=0)
        assert own.rank == 2
        assert own.correct_after == report.test.majority_correct
        counts = {own.correct_before: None, own.correct_random: own.random}
        assert own.correct_before > report.test.majority_correct + 20
        assert own.correct_random > report.test.majority_correct + 10
        for count, projection in counts.items():
            maps = [one if projection is None else applied(one, projection) for one in (states, tested)]
            assert abs(correct(maps[0], labels, maps[1], gold, scale) - count) <= 1
        after = applied(states, own.projection)
        means = np.stack([after[labels == label].mean(axis=0) for label in range(3)])
        before = np.stack([states[labels == label].mean(axis=0) for label in range(3)])
        assert np.ptp(means, axis=0).max() < 1e-5 < np.ptp(before, axis=0).max()
        left, right, mean = arrays(own.projection)
        np.testing.assert_allclose(right @ left, np.eye(2), atol=1e-4)
        np.testing.assert_allclose(mean, states.mean(axis=0), atol=1e-5)
        left, right, mean = arrays(own.random)
        np.testing.assert_allclose(left, right.T)
        np.testing.assert_allclose(right @ left, np.eye(2), atol=1e-5)
        np.testing.assert_allclose(mean, states.mean(axis=0), atol=1e-5)


@pytest.mark.slow
def test_inlp_takes_directions_away_until_a_probe_finds_nothing(host: Host) -> None:
    found = erase(host, layers=[2], method=Request.METHOD_INLP, rank=20, seed=5)
    (own,), report = found.erasers, found.report
    assert report.method == Request.METHOD_INLP
    assert (report.train.texts, report.dev.texts, report.test.texts) == (54, 6, 20)  # a tenth of train is split off
    assert 2 <= own.rank <= 20
    left, right, _ = arrays(own.projection)
    np.testing.assert_allclose(left, right.T, atol=1e-6)
    np.testing.assert_allclose(right @ left, np.eye(own.rank), atol=1e-5)
    assert own.correct_after < own.correct_before - 10
    assert own.correct_after < own.correct_random
    (train, labels), (test, gold) = vectors(host, TRAIN, "MEAN"), vectors(host, TEST, "MEAN")
    states, tested = (applied(one[:, 2], own.projection) for one in (train, test))
    assert abs(correct(states, labels, tested, gold, train[:, 2].std(axis=0)) - own.correct_after) <= 12  # of fewer texts
    done = [(one.done, one.total) for one in found.progress if one.stage == probes.ProbeProgress.STAGE_TRAINING]
    assert done[-1] == (20, 20)
    assert all(total == 20 for _, total in done)


def test_nothing_to_erase_is_a_map_of_rank_0(host: Host) -> None:
    """Both classes have the same words in the same texts, so that no probe beats chance on others."""
    text = TRAIN[0]
    same = [probes.ProbeText(input=text.input, spans=text.spans[:1]) for _ in range(40)]
    for index, one in enumerate(same):
        one.spans[0].label = index % 2
    found = erase(host, layers=[2], method=Request.METHOD_INLP, labels=LABELS[:2], train=same, test=same)
    (own,) = found.erasers
    assert own.rank == 0
    assert not own.HasField("projection")
    assert not own.HasField("random")
    assert own.correct_before == own.correct_after == own.correct_random == 20
    (own,) = erase(host, layers=[2], labels=LABELS[:2], train=same, test=same).erasers
    assert own.rank == 0
