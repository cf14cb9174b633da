"""Attributions to words: targets, how long texts are divided, replies that are joined, intervals, tables, notebooks."""

import math
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution.inputs import PAIRS, SectionPace, asked_sections, with_sections
from bertscope.questions.attribution.words import Assembly, read_sections
from bertscope.rpc.sections import PART_WORK
from bertscope.v1 import attribution_pb2, common_pb2
from bertscope.v1.attribution_pb2 import AttributeWordsRequest
from bertscope.values.requests import request_of
from bertscope.values.score_targets import target_message
from bertscope.values.vectors import tensor
from bertscope_workbench.plots.words_html import words_html

from tests.support.broken_replies import refusals
from tests.support.descriptions import PROVENANCE

TARGET = bertscope.Answer("are", "is")
TEXT = "The keys [MASK] old."
LONG = "The old man walked to the market every day. " * 12


def request(**fields: Any) -> attribution_pb2.AttributeWordsRequest:
    none = dict.fromkeys(("model", "absent", "exact_units", "pairs", "steps", "max_steps", "tolerance"))
    given = {"method": "shapley", "unit": "word", "seed": 0, "first_pair": 0, "interactions": False, "truncate": False}
    return request_of(AttributeWordsRequest, **none | given | {"interventions": (), "reference_texts": ()} | fields)  # type: ignore[arg-type]


def game(asked: attribution_pb2.AttributeWordsRequest) -> attribution_pb2.AttributeWordsResponse:
    """A reply in which pair k adds k to word 0, and -1 to the others; six words are exact."""
    response = attribution_pb2.AttributeWordsResponse(method=asked.method, absent=1, provenance=PROVENANCE)
    for given in asked.inputs:
        words = [*common_words(given.text)]
        pairs = asked.pairs or PAIRS
        numbers = np.arange(asked.first_pair, asked.first_pair + pairs, dtype=np.float64)
        sums = np.full(len(words), -float(pairs))
        squares = np.full(len(words), float(pairs))
        sums[0], squares[0] = numbers.sum(), (numbers**2).sum()
        exact = len(words) <= 6
        values = np.arange(len(words)) if exact else sums / pairs
        response.results.add(
            units=words,
            values=values,
            value=3.0 + values.sum(),
            value_absent=3.0,
            evaluations=2 * pairs,
            pairs=0 if exact else pairs,
            sums=() if exact else sums,
            sums_of_squares=() if exact else squares,
            interactions=tensor(np.eye(len(words), dtype=np.float32)[::-1]) if asked.interactions else None,
            tokens=len(words) + 2,
        )
    return response


def common_words(text: str) -> Any:
    start = 0
    for index, word in enumerate(text.split()):
        start = text.index(word, start)
        yield common_pb2.Token(text=word, start=start, end=start + len(word), word=index)
        start += len(word)


def answered(texts: Any, target: Any = TARGET, spans: Any = None, **fields: Any) -> bertscope.WordAttributions:
    """The answers of a server, asked in calls of one section."""
    asking, assembly = request(**fields), Assembly()
    sections = list(asked_sections(texts, target, spans, asking).items)
    joined = [
        assembly.add(answer)
        for section in sections
        for answer in read_sections(asking, [section], game(with_sections(asking, [section])))
    ]
    return bertscope.WordAttributions([found for found in joined if found is not None])


def test_the_pairs_of_a_long_text_are_divided_among_calls() -> None:
    asking = request(pairs=40)
    sections = list(asked_sections(LONG, TARGET, None, asking).items)
    assert len(sections) > 5
    numbers = [number for section in sections if section.pairs is not None for number in section.pairs]
    assert numbers == list(range(40))
    assert [section.last for section in sections] == [False] * (len(sections) - 1) + [True]
    assert all(section.ends_call for section in sections[:-1])
    assert max(section.work for section in sections) < 2 * PART_WORK + sections[0].work / 2
    sent = with_sections(asking, [sections[1]])
    assert (sent.first_pair, sent.pairs, len(sent.inputs)) == (len(sections[0].pairs or ()), len(sections[1].pairs or ()), 1)
    (found,) = answered(LONG, pairs=40)
    later = asked_sections(LONG, TARGET, None, request(pairs=40, first_pair=7)).items
    assert [number for section in later for number in section.pairs or ()] == list(range(7, 47))
    assert found.sampled == ((0, 0, 40),)
    assert found.sums[0] == sum(range(40))
    assert found.sums_of_squares[0] == sum(number**2 for number in range(40))
    assert (found.pairs, found.evaluations, found.values[1]) == (40, 80, -1.0)
    assert found.value - found.value_absent == pytest.approx(found.values.sum() + found.rest)


def test_a_call_has_sections_with_the_same_pairs() -> None:
    asked = asked_sections([TEXT, TEXT, LONG, TEXT, TEXT, TEXT], TARGET, None, request(pairs=20))
    pace = SectionPace(lambda section: section.work, None)
    pace.answered(10**12, 1.0)
    calls = []
    while call := list(pace.some(asked.items)):
        calls.append(call)
    assert [len(call) for call in calls] == [2, *[1] * (len(calls) - 2), 3]
    assert all(len({section.pairs for section in call}) == 1 for call in calls)


def test_parts_with_other_pairs_add_up() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    (first,), (second,) = answered(words, pairs=6), answered(words, pairs=6, seed=1)
    both = first + second
    assert (both.pairs, both.sampled, both.evaluations) == (12, ((0, 0, 6), (1, 0, 6)), 24)
    (rest,) = answered(words, pairs=4, first_pair=6)
    assert (rest.sampled, (first + rest).sampled) == (((0, 6, 4),), ((0, 0, 10),))
    assert np.array_equal((first + rest).values, answered(words, pairs=10)[0].values)
    np.testing.assert_allclose(both.values, (first.values + second.values) / 2)
    assert both.rest == pytest.approx(both.value - both.value_absent - both.values.sum())
    assert bertscope.WordAttribution.merge([first, second, *answered(words, pairs=3, seed=2)]).pairs == 15
    for other, why in (
        (first, "share pair 0 of seed 0"),
        (answered(TEXT)[0], "text"),
        (answered(words, bertscope.Answer("is"), pairs=6, seed=1)[0], "target"),
    ):
        with pytest.raises(bertscope.InvalidArgument, match=why):
            first + other
    (exact,) = answered(TEXT)
    with pytest.raises(bertscope.InvalidArgument, match="not sampled"):
        exact + exact


def test_sections_that_contradict_each_other_are_an_invalid_reply() -> None:
    asking, assembly = request(pairs=40), Assembly()
    first, *_, last = asked_sections(LONG, TARGET, None, asking).items
    (one,) = read_sections(asking, [first], game(with_sections(asking, [first])))
    response = game(with_sections(asking, [last]))
    response.results[0].label = "other"
    (other,) = read_sections(asking, [last], response)
    assert assembly.add(one) is None
    with pytest.raises(bertscope.InvalidReply, match=r"do not go together: .*label"):
        assembly.add(other)


def test_targets_become_messages(stored) -> None:
    targets = [
        bertscope.Answer("are", "is", mask=1, scale="probability"),
        bertscope.Answer("are"),
        bertscope.TextLabel(other="negative"),
        bertscope.WordLabel((0, 5, 1), "B-LOC"),
        bertscope.PassageAnswer((3, 7)),
        bertscope.SimilarTo(("a", "b"), "mean"),
        bertscope.TextValue(),
        bertscope.NextSentence("log_probability"),
    ]
    stored(
        messages=[target_message("target", target) for target in targets],
        refused=[
            lambda: bertscope.Answer(" "),
            lambda: bertscope.TextLabel(""),
            lambda: bertscope.WordLabel(3),
            lambda: bertscope.PassageAnswer((1,)),
            lambda: answered(TEXT, "are"),
            lambda: answered(TEXT, ["are"]),
            lambda: answered([TEXT, TEXT], [TARGET]),
            lambda: answered(TEXT, [TARGET, TARGET]),
            lambda: answered(3),
            lambda: answered([TEXT, 3]),
            lambda: answered([TEXT, TEXT], spans=[(0, 3)]),
            lambda: answered(TEXT, spans=[[(0, 3)], [(0, 3)]]),
            lambda: answered(TEXT, spans=[(0,)]),
            lambda: answered(TEXT, spans=[3]),
            lambda: answered(LONG, pairs=40, first_pair=2**32 - 2),
        ],
    )


def test_only_sampled_texts_are_divided() -> None:
    for fields in ({"method": "occlusion"}, {"method": "frozen"}, {"interactions": True}, {"exact_units": 200}):
        (section,) = asked_sections(LONG, TARGET, None, request(**fields)).items
        assert (section.pairs, section.last) == (None, True)
    (section,) = asked_sections(TEXT, TARGET, None, request()).items
    assert section.pairs is None
    assert not with_sections(request(), [section]).HasField("pairs")
    assert len(list(asked_sections(LONG, TARGET, [(0, 3), (4, 7)], request()).items)) == 1


@pytest.mark.parametrize("interactions", [False, True], ids=["values", "interactions"])
def test_replies_that_break_the_contract(interactions: bool, stored) -> None:
    asking = request(interactions=interactions)
    (section,) = asked_sections("a b c d e f g h", TARGET, None, asking).items
    good = game(with_sections(asking, [section]))
    stored(
        answer=read_sections(asking, [section], good)[0][1],
        broken=refusals(lambda messages: read_sections(asking, [section], *messages), good),
        of_another_shape=lambda: read_sections(
            request(), [section], game(with_sections(request(interactions=True), [section]))
        ),
    )


def test_tables_and_notebooks(stored) -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    found = answered([TEXT, words], pairs=5)
    (nasty,) = answered("<b>A</b> $x$ y z w v u t s r q p", pairs=5)
    page = words_html([nasty])
    assert "<b>A" not in page
    assert "2 more texts are not shown" in words_html([nasty] * 12)
    assert "7 more words" in words_html(answered(" ".join(["word"] * 407), pairs=1))
    stored(
        frame=found.to_pandas(),
        frame_of_one=found[0].to_pandas(),
        nothing=bertscope.WordAttributions([]).columns(),
        rows=[one.to_row() for one in found],
        shown=repr(found),
        page=page.replace("<", "\n<"),
    )


def test_each_text_has_its_target_and_its_parts(stored) -> None:
    targets = [TARGET, bertscope.TextLabel("x")]
    two = asked_sections([TEXT, ("a", "b")], TARGET, None, request())
    lazy = asked_sections(iter([TEXT, TEXT]), iter(targets), iter([[(0, 3)], []]), request())
    spans = [(0, 3), (4, 8, 0)], [[(0, 3), (4, 8)]], [np.array([0, 3]).tolist(), (np.int64(4), 8)], []
    stored(
        two=[two.total, two.numbers, *(section.message for section in two.items)],
        lazily=[lazy.total, *(section.message for section in lazy.items)],
        alone=[[section.message for section in asked_sections(TEXT, TARGET, given, request()).items] for given in spans],
    )


def test_intervals_are_those_of_students_t_over_the_pairs() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    (found,) = answered(words, pairs=5)
    ends, wider = found.interval(), found.interval(0.99)
    assert ends is not None and wider is not None
    # Values 0 to 4: mean 2, standard error sqrt(2.5 / 5), and t(3, .975) = 3.182446.
    assert ends[0] == pytest.approx((2 - 3.182446 * math.sqrt(0.5), 2 + 3.182446 * math.sqrt(0.5)), abs=1e-5)
    assert ends[1] == (-1.0, -1.0) and wider[0].low < ends[0].low
    text = "Donaudampfschifffahrtsgesellschaft-" * 12  # few words after all
    exact = answered(text, pairs=40, exact_units=6)[0]
    few = (
        answered(words, pairs=4)[0],
        answered(words.partition(" seven")[0], pairs=5, exact_units=2)[0],
        answered(TEXT)[0],
        exact,
    )
    assert [one.interval() for one in few] == [None] * 4
    with pytest.raises(bertscope.InvalidArgument, match="confidence"):
        found.interval(2)
