"""`nearest_neighbours`, `explainable_variance` and their options of `bertscope geometry`, of a real server's states."""

import bertscope
import bertscope_workbench as workbench
import pytest

from tests.support.harness import Host
from tests.support.tiny import SENTENCES

TEXTS = ["The cat sat on the mat.", "Nobody waited.", ("A cat?", "The CAT sat."), "The cat sat on the mat."]
LONG = " ".join(SENTENCES * 60)


def test_neighbours_of_words_of_texts_and_pairs(host: Host) -> None:
    heard: list[bertscope.TextsProgress] = []
    rejected: list[int] = []
    with bertscope.Client(host.target) as client:
        texts = [LONG, *TEXTS]
        with pytest.raises(bertscope.InvalidArgument, match=r"inputs\[0\]"):
            workbench.nearest_neighbours(client, texts, "cat")
        found = workbench.nearest_neighbours(
            client,
            texts,
            "Cat",
            k=2,
            layers=[0, 4],
            on_progress=heard.append,
            on_rejected=lambda index, error: rejected.append(index),
        )
        with pytest.raises(bertscope.InvalidArgument, match=r"words\[0\]: is a word of no text"):
            workbench.nearest_neighbours(client, TEXTS, "zebra")
        with pytest.raises(bertscope.InvalidArgument, match="give at least one text"):
            list(client.extract_hidden_states([]))
    assert (rejected, found.texts, heard[-1].done) == ([0], 4, 4)
    places = [(one.occurrence.input_index, one.occurrence.token.segment) for one in found.found]
    assert places == [(1, 0), (3, 0), (3, 1), (4, 0)]
    # The first and the last text are the same, so that their cats have the same states.
    for one, other in ((found.found[0], 4), (found.found[3], 1)):
        near = one.neighbours[4][0]
        assert (near.occurrence.input_index, near.occurrence.token.text) == (other, "cat")
        assert near.cosine == pytest.approx(1, abs=1e-5)
