"""Tags are counted at one place of each text, compared with drawn places by an exact test, and corrected for all counts."""

import math

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.context_arrays import Found, Places, UnitArrays
from bertscope.values.intervals import wilson_interval
from bertscope_workbench.command.commands.find import links_of

TEXTS = [f"the dog {index}" for index in range(12)]
TAGS = [[("DET", 0, 3), ("NOUN", 4, 7), ("NUM", 8, 10)] for _ in TEXTS]
SOURCE = bertscope.Provenance("models/m", "sha256:0", "torch", "cpu", "fp32", {}, "zero_based")


def contexts(best, drawn, partners=None):
    """Contexts of one head, or of a neuron without partners; best, drawn, partners: (text, word 0 to 2) of each place."""
    words = [(text, 0, 4 * word, 4 * word + 3) for text in range(len(TEXTS)) for word in range(3)]
    numbers = [np.array([3 * text + word for text, word in places], np.int64) for places in (best, drawn)]
    kind = "neuron" if partners is None else "head"
    of = np.zeros((1, 0), np.int64) if partners is None else np.array([[3 * text + word for text, word in partners]], np.int64)
    arrays = UnitArrays(
        kind, 4, 0, np.zeros(0), np.array([7]), np.zeros(0, np.int64), np.zeros(1), np.zeros(1), np.array([[36]]),
        np.linspace(1, 0, len(best), dtype=np.float32)[None], numbers[0][None], of[:, : len(best)],
        np.zeros((1, len(drawn)), np.float32), of[:, len(best) :],
    )  # fmt: skip
    places = Places(36, numbers[1], np.arange(len(drawn), dtype=np.uint64), np.zeros(0, np.int64))
    found = Found([arrays], [places], np.array(words, np.int64), dict(enumerate(TEXTS)))
    sums = {"texts": 12, "tokens": 60, "truncated_texts": 0, "skipped_pairs": 0}
    return bertscope.Contexts(found, names=[], best=10, sample=100, provenance=SOURCE, **sums)


def test_of_each_text_the_best_place_alone_counts() -> None:
    best = [(text, 0) for text in range(8)] + [(text, 1) for text in range(8)] + [(8, 2), (9, 2)]
    drawn = [(text, text % 3) for text in range(12)] + [(text, 0) for text in range(12)]
    counts = bertscope.count_tags(contexts(best, drawn), TAGS)
    found = {one.tag: one for one in counts}
    assert set(found) == {"DET", "NUM"}
    assert (found["DET"].found, found["DET"].texts, found["DET"].drawn_found, found["DET"].drawn) == (8, 10, 4, 12)
    assert found["DET"].share == 0.8 and found["DET"].by_chance == 4 / 12 and str(found["DET"].unit) == "neuron:4:7"
    assert found["DET"].interval() == wilson_interval(8, 10)
    # Fisher: of 22 places 12 have the tag; so many or more of the first 10.
    expected = sum(math.comb(10, k) * math.comb(12, 12 - k) for k in range(8, 11)) / math.comb(22, 12)
    assert found["DET"].p == pytest.approx(expected)
    assert found["DET"].p_corrected == pytest.approx(min(1, 2 * expected)) and counts[0] == found["DET"]


def test_partners_and_links_of_heads_are_counted() -> None:
    best, drawn = [(text, 0) for text in range(6)], [(text, 2) for text in range(6, 12)]
    partners = [(text, 1) for text in range(12)]
    links = [[("det to head", 0, 4)] for _ in TEXTS]
    counts = bertscope.count_tags(contexts(best, drawn, partners), TAGS, links)
    assert {(one.of, one.tag): (one.found, one.texts, one.drawn_found) for one in counts} == {
        ("word", "DET"): (6, 6, 0),
        ("partner", "NOUN"): (6, 6, 6),
        ("link", "det to head"): (6, 6, 0),
    }
    assert [one.of for one in counts.best()][-1] == "partner" and len(counts.best()) == 3
    assert counts.records()[0]["unit"] == "head:4:7"


def test_bad_tags_are_named() -> None:
    for tags, where in (([[("", 0, 3)]], "tags[0][0]"), ([[("DET", 0)]], "tags[0][0]"), ({3: [("DET", -1, 2)]}, "tags[3][0]")):
        with pytest.raises(bertscope.InvalidArgument) as caught:
            bertscope.count_tags(contexts([(0, 0)], [(1, 0)]), tags)
        assert where in str(caught.value)


def test_links_are_of_dependencies_both_ways() -> None:
    text = bertscope.RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)])
    assert links_of([text]) == [
        [("nsubj to head", 4, 8), ("nsubj from head", 8, 4), ("det to head", 0, 4), ("det from head", 4, 0)]
    ]
