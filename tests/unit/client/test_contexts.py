"""Contexts: replies that are merged with equal values, what is refused, what is shown, and replies that break the contract."""

from collections.abc import Sequence
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.context_arrays import ContextReader
from bertscope.questions.representations.context_requests import with_directions
from bertscope.v1 import representation_contexts_pb2 as pb

from tests.support.broken_replies import refusals
from tests.support.sent_requests import sent

HEAD, NEURON, DIRECTION = pb.ContextUnits.KIND_HEAD, pb.ContextUnits.KIND_ACTIVATION, pb.ContextUnits.KIND_DIRECTION
SOURCE = bertscope.Provenance("models/m", "sha256:0", "torch", "cpu", "fp32", {}, "zero_based")
WORDS, UNITS, BEST, SAMPLE = 4, 3, 6, 9
SUMS = {"tokens": 0, "truncated_texts": 0, "skipped_pairs": 0}
EDGES = [0.0, 1.0]


def value(unit: int, text: int, word: int) -> float:
    """Of few sizes, so that many are equal."""
    return float((7 * unit + 5 * text + 3 * word * word) % 4) / 2


def partner(unit: int, word: int) -> int:
    return (word + 1 + unit) % WORDS


def key(text: int, word: int) -> int:
    return (text * 7919 + word * 104729) % 100_003


def reply(texts: Sequence[int], best: int = BEST, sample: int = SAMPLE) -> list[pb.FindContextsResponse]:
    """What a server says of some texts of four words, by a full sort."""
    places = [(text, word) for text in texts for word in range(WORDS)]
    number = {place: index for index, place in enumerate(places)}
    drawn = sorted(places, key=lambda place: key(*place))[:sample]
    words = pb.ContextWords(
        texts=[text for text, _ in places],
        starts=[2 * word for _, word in places],
        ends=[2 * word + 1 for _, word in places],
        segments=[0 for _ in places],
    )
    found = [
        pb.FindContextsResponse(progress=pb.FindContextsProgress(done=len(texts), total=len(texts))),
        pb.FindContextsResponse(
            summary=pb.ContextsSummary(
                texts=len(texts),
                places=[
                    pb.ContextPlaces(
                        count=len(places), words=[number[place] for place in drawn], keys=[key(*place) for place in drawn]
                    )
                ],
                words=len(places),
            )
        ),
        pb.FindContextsResponse(words=words),
    ]
    for kind, layer in ((HEAD, 2), (NEURON, 1), (DIRECTION, 0)):
        units = pb.ContextUnits(kind=kind, layer=layer, units=range(UNITS), places=0, edges=EDGES)
        for unit in range(UNITS):
            values = {place: value(unit + layer, *place) for place in places}
            ranked = sorted(places, key=lambda place: (-values[place], place))[:best]
            units.sums.append(sum(values.values()))
            units.squares.append(sum(one * one for one in values.values()))
            units.histograms.extend(np.bincount(np.digitize([*values.values()], EDGES), minlength=3).tolist())
            units.best_values.extend(values[place] for place in ranked)
            units.best_words.extend(number[place] for place in ranked)
            units.sample_values.extend(values[place] for place in drawn)
            if kind == HEAD:
                units.best_partners.extend(number[text, partner(unit, word)] for text, word in ranked)
                units.sample_partners.extend(number[text, partner(unit, word)] for text, word in drawn)
        found.append(pb.FindContextsResponse(units=units))
    return found


def read(texts: Sequence[int], messages: Sequence[pb.FindContextsResponse], best: int = BEST, sample: int = SAMPLE) -> Any:
    asked = {(HEAD, 2): range(UNITS), (NEURON, 1): ()}
    reader = ContextReader(dict.fromkeys(texts, "a b c d"), [range(UNITS)], best, asked)
    for message in messages:
        reader.add(message)
    names = [(f"d{number}", 3) for number in range(UNITS)]
    given = {"names": names, "best": best, "sample": sample, "provenance": SOURCE, "texts": len(texts)}
    return bertscope.Contexts(reader.end(), **given, **SUMS)


def plain(found: bertscope.Contexts) -> list[Any]:
    return [(one.unit, one.best, one.sample, one.count, one.mean, one.deviation, one.histogram) for one in found]


@pytest.mark.slow
@pytest.mark.parametrize(("best", "sample", "size"), [(1, SAMPLE, 11), (BEST, 1, 3), (100, 1000, 1), (BEST, SAMPLE, 3)])
def test_any_division_merges_into_the_whole(best: int, sample: int, size: int) -> None:
    """Also where values are equal, and parts come in another order."""
    every = range(20, 42)
    whole = read(every, reply(every, best, sample), best, sample)
    parts = [every[begin : begin + size] for begin in range(0, len(every), size)]
    found = [read(part, reply(part, best, sample), best, sample) for part in parts]
    assert plain(bertscope.Contexts.merge(found)) == plain(whole)
    mixed = bertscope.Contexts.merge([*found[1::2], *found[::2]])
    assert [one.best for one in mixed] == [one.best for one in whole]
    grown = found[0]
    for one in found[1:]:
        grown = bertscope.Contexts.merge([grown, one])
    assert plain(grown) == plain(whole)
    assert grown.texts == whole.texts


def test_what_is_read() -> None:
    found = read([3, 4], reply([3, 4]))
    head = found["head:2:1"]
    ranked = sorted(((text, word) for text in (3, 4) for word in range(WORDS)), key=lambda one: (-value(3, *one), one))
    assert [(place.text_index, place.span.start // 2) for place in head.best] == ranked[:BEST]
    assert [place.partner_span.start // 2 for place in head.best if place.partner_span] == [
        partner(1, word) for _, word in ranked[:BEST]
    ]
    assert (head.best[0].word, head.best[0].text) == ("abcd"[ranked[0][1]], "a b c d")
    assert found["d2"].unit == found[-1].unit == bertscope.ContextUnit("direction", 3, 2, "d2")
    assert found["d2"].best == found[8].best
    assert found["neuron:1:0"].best[0].partner is None
    drawn = sorted(((text, word) for text in (3, 4) for word in range(WORDS)), key=lambda place: key(*place))
    assert [(place.text_index, place.span.start // 2) for place in head.sample] == drawn
    assert [place for tenth in head.tenths for place in tenth] == sorted(head.sample, key=lambda place: place.value)
    assert len(head.tenths) == 10
    assert [one.unit for one in found[:2]] == [found.units[0], found.units[1]]
    rows = list(found.rows(["head:2:1"]))
    assert [row["rank"] for row in rows[:BEST]] == list(range(1, BEST + 1))
    assert len(found.to_pandas()) == len(found) * (BEST + len(head.sample))
    assert "9 units in 2 texts" in repr(found)
    with pytest.raises(bertscope.InvalidArgument, match="head:9:9"):
        found["head:9:9"]


def test_the_request(stored) -> None:
    def asked(**given: Any) -> pb.FindContextsRequest:
        found: Any = sent("find_contexts", texts=bertscope.RelationText("A b.", [("r", 0, 1)]), **given)
        found.ClearField("texts")
        return found

    request = asked(heads={4: [10], 2: None}, neurons={3: [7, 1]}, relation="r")
    vectors = np.eye(3, dtype=np.float32)
    given = [
        bertscope.SiteDirection("a", 1, vectors[0], bias=2),
        bertscope.SiteDirection("b", 2, vectors[1], cosine=True),
        bertscope.SiteDirection("c", 1, vectors[2]),
        bertscope.SiteDirection("d", 1, vectors[2], threshold=0.5),
    ]

    def direction(**fields: Any) -> bertscope.SiteDirection:
        return bertscope.SiteDirection(**{"name": "a", "layer": 1, "vector": [1.0]} | fields)

    stored(
        numbers=with_directions(request, given),
        request=request,
        refused=[
            lambda: asked(heads=None, relation="r"),
            lambda: asked(heads="all", backward=True),
            lambda: asked(heads={}),
            lambda: direction(name=""),
            lambda: direction(site="keys"),
            lambda: direction(cosine=True, bias=1),
            lambda: direction(threshold=np.nan),
            lambda: direction(vector=[[1]]),
            lambda: direction(vector=[np.inf]),
            lambda: direction(layer=-1),
        ],
    )


def test_replies_that_break_the_contract(stored) -> None:
    good = reply([3, 4], best=2, sample=2)
    stored(broken=refusals(lambda messages: plain(read([3, 4], messages, best=2, sample=2)), *good))
