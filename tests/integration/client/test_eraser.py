"""Erasers and neurons through a real server: what is erased is gone from the states that other calls see."""

from collections.abc import Iterator

import bertscope
import numpy as np
import pytest

from tests.support.harness import Host
from tests.support.probes import LABELS, noisy

TEXTS = [
    bertscope.ProbeText(text.input.text, [(LABELS[one.label], one.span.start, one.span.end) for one in text.spans])
    for text in noisy(30, 1)
]


@pytest.fixture
def client(host: Host) -> Iterator[bertscope.Client]:
    with bertscope.Client(host.target) as made:
        yield made


def class_means(client: bertscope.Client, layer: int, changes: list[bertscope.SiteIntervention]) -> np.ndarray:
    """The mean of the labelled words' states after a layer, [classes, size]."""
    by_label: dict[str, list[np.ndarray]] = {label: [] for label in LABELS}
    texts = [text.text for text in TEXTS]
    for text, states in zip(TEXTS, client.extract_hidden_states(texts, layers=[layer], interventions=changes), strict=True):
        for label in text.labels:
            places = [at for at, token in enumerate(states.tokens) if not token.special and label[1] <= token.start < label[2]]
            by_label[label[0]].append(states.states[0, places].mean(axis=0))
    return np.stack([np.mean(own, axis=0) for own in by_label.values()])


@pytest.mark.slow
def test_classes_have_one_mean_in_the_states_that_other_calls_see(client: bertscope.Client) -> None:
    eraser = client.train_eraser(TEXTS, test=TEXTS, layers=[1, 3])
    assert isinstance(eraser, bertscope.Eraser)
    for layer in (1, 3):
        own = eraser.layers[layer]
        assert (own.rank, own.accuracy_after) == (2, eraser.majority)
        before, after, random = (
            np.ptp(class_means(client, layer, changes), axis=0).max()
            for changes in ([], [eraser.change(layer)], [eraser.random_change(layer)])
        )
        assert after < 1e-5 < 0.1 * before
        assert random > 0.1 * before


def test_progress_comes_and_a_kept_eraser_changes_answers_as_the_first_one(
    client: bertscope.Client, tmp_path_factory: pytest.TempPathFactory
) -> None:
    seen: list[bertscope.ProbeProgress] = []
    eraser = client.train_eraser(TEXTS, method="inlp", rank=3, layers=2, on_progress=seen.append)
    assert {one.stage for one in seen} == {"states", "training"}
    assert eraser.method == "inlp"
    assert eraser.dev is not None
    path = tmp_path_factory.mktemp("kept") / "classes.npz"
    eraser.save(path)
    changes = [[], [eraser.change(2)], [bertscope.Eraser.load(path).change(2)]]
    scores = [client.score_texts("the cat sat on the mat", interventions=one)[0] for one in changes]
    plain, erased, again = (score.log_likelihood for score in scores)
    assert plain != pytest.approx(erased, abs=1e-3)
    assert erased == again


def test_silenced_neurons_are_those_of_the_sum(client: bertscope.Client) -> None:
    """All neurons of a layer at 0 give what the answer says that the number is without them."""
    text, target = "the [MASK] sat on the mat", bertscope.Answer("cat", scale="log_probability")
    (found,) = client.find_neurons(text, target, layers=[1, 2], top=10_000, tolerance=0.001)
    silent = bertscope.scale_site(2, factor=0, positions="masks")
    (filled,) = client.fill_mask(text, candidates=["cat"], interventions=[silent])
    assert filled.masks[0].predictions[0].log_probability == pytest.approx(found.layer_values_absent[1], abs=1e-4)
    (few,) = client.find_neurons(text, target, layers=[1, 2], top=5)
    assert [one.unit for one in few.units] == [one.unit for one in found.units[:5]]
    assert len(found.changes(0)) <= 2
