"""`retrieve_sentences` beside double loops over the states, and over states that are made for the purpose."""

from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

from tests.support.harness import Host

SOURCES = ["The cat sat on the mat.", "Nobody waited.", "It is late now.", "Dogs bark at night."]
TARGETS = ["A cat was on a mat.", "No one waited.", "It is late.", "At night dogs bark."]


def looped(sources: list[Any], targets: list[Any], centred: bool) -> list[list[int]]:
    """Ranks of the right target of each source, layer by layer, one distance at a time."""
    ranks = []
    for layer in range(len(sources[0])):
        one, other = ([np.float64(vector[layer]) for vector in side] for side in (sources, targets))
        if centred:
            one, other = ([vector - sum(side) / len(side) for vector in side] for side in (one, other))
        distances = [[float(np.linalg.norm(a - b)) for b in other] for a in one]
        ranks.append([1 + sum(far < row[place] for far in row) for place, row in enumerate(distances)])
    return ranks


@pytest.mark.parametrize("pooling", ["mean", "first"])
@pytest.mark.parametrize("centred", [True, False])
def test_ranks_are_those_of_double_loops(host: Host, pooling: Any, centred: bool) -> None:
    with bertscope.Client(host.target) as client:

        def vectors(texts: list[str]) -> list[Any]:
            found = client.extract_hidden_states(texts, model="bert")
            return [one.states[:, 0] if pooling == "first" else one.states[:, 1:-1].mean(axis=1) for one in found]

        found = workbench.retrieve_sentences(client, iter(SOURCES), TARGETS, model="bert", pooling=pooling, centred=centred)
        one, other = vectors(SOURCES), vectors(TARGETS)
    assert found.forward_ranks[1:].tolist() == looped(one, other, centred)[1:]
    assert found.backward_ranks[1:].tolist() == looped(other, one, centred)[1:]
    if pooling == "first":  # All have the same [CLS] in the embeddings: nothing but ties.
        assert (found.forward_ranks[0].tolist(), found.forward_ties[0]) == ([4] * 4, 4)
    right = (found.forward == np.arange(4))[1:]
    np.testing.assert_array_equal(right, found.forward_ranks[1:] == 1)
    np.testing.assert_allclose(found.accuracy()[1:], right.mean(axis=1))
    assert all(low <= share <= high for share, (low, high) in zip(found.accuracy(), found.intervals(), strict=True))
    assert (found.pooling, found.centred, found.chance) == (pooling, centred, 0.25)
    assert found.to_pandas().shape == (2 * len(found.layers), 8)


def test_pairs_with_a_rejected_text_are_left_out(host: Host) -> None:
    told: list[tuple[int, str]] = []
    long = "the cat " * 60
    with bertscope.Client(host.target) as client:
        sources, targets = [long, *SOURCES], [TARGETS[0], *TARGETS[:2], long, TARGETS[3]]
        found = workbench.retrieve_sentences(
            client,
            sources,
            targets,
            model="bert",
            layers=4,
            on_rejected=lambda place, error: told.append((place, error.field_violations[0].field)),
        )
        kept = [SOURCES[place] for place in (0, 1, 3)], [TARGETS[place] for place in (0, 1, 3)]
        alone = workbench.retrieve_sentences(client, *kept, model="bert", layers=4)
        for one, other, field in ((sources, targets, "sources[0]"), (SOURCES, targets[1:], "targets[2]")):
            with pytest.raises(bertscope.InvalidArgument) as raised:
                workbench.retrieve_sentences(client, one, other, model="bert")
            assert raised.value.field_violations[0].field.startswith(field)
            assert "inputs[" not in str(raised.value)
    assert [(place, field[:10]) for place, field in told] == [(0, "sources[0]"), (3, "targets[3]")]
    assert (found.pairs, found.layers) == ((1, 2, 4), (4,))
    np.testing.assert_array_equal(found.forward_ranks, alone.forward_ranks)
    assert set(found.forward.ravel()) <= {1, 2, 4}


@pytest.mark.parametrize(
    ("sources", "targets", "options", "said"),
    [
        (SOURCES, TARGETS[:3], {}, "targets: has 3 sentences, sources 4"),
        ([], [], {}, "sources"),
        (SOURCES, TARGETS, {"layers": 99}, "layers"),
        (SOURCES, TARGETS, {"pooling": "last"}, "pooling"),
    ],
)
def test_bad_input_is_an_error_of_its_field(host: Host, sources: Any, targets: Any, options: Any, said: str) -> None:
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match=said):
        workbench.retrieve_sentences(client, sources, targets, model="bert", **options)
