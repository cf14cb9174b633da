"""Attributions to words: targets, how long texts are divided, replies that are joined, intervals, tables, notebooks."""

from __future__ import annotations

import math
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution.inputs import PAIRS, Section, SectionPace, asked_sections
from bertscope.questions.attribution.replies import Assembly, read_sections
from bertscope.questions.attribution.requests import attribute_words_request, with_sections
from bertscope.questions.attribution.words import word_columns
from bertscope.rpc.sections import EAGER_TEXTS, PART_WORK
from bertscope.v1 import attribution_pb2, common_pb2, target_pb2
from bertscope.values.score_targets import target_message

from tests.support.descriptions import PROVENANCE

TARGET = bertscope.Answer("are", "is")
TEXT = "The keys [MASK] old."
LONG = "The old man walked to the market every day. " * 12


def request(**fields: Any) -> attribution_pb2.AttributeWordsRequest:
    none = dict.fromkeys(("model", "absent", "exact_units", "pairs", "steps", "max_steps", "tolerance"))
    given = {
        "method": "shapley",
        "unit": "word",
        "seed": 0,
        "first_pair": 0,
        "interactions": False,
        "interventions": (),
        "reference_texts": (),
    }
    return attribute_words_request(**none | given | {"truncate": False} | fields)  # type: ignore[arg-type]


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
            interactions=tensor(np.eye(len(words))[::-1]) if asked.interactions else None,
            tokens=len(words) + 2,
        )
    return response


def common_words(text: str) -> Any:
    start = 0
    for index, word in enumerate(text.split()):
        start = text.index(word, start)
        yield common_pb2.Token(text=word, start=start, end=start + len(word), word=index)
        start += len(word)


def tensor(values: Any) -> common_pb2.Tensor:
    array = np.ascontiguousarray(values, "<f4")
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=array.shape, data=array.tobytes())


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


def test_a_target_becomes_its_message() -> None:
    def message(target: Any) -> target_pb2.Target:
        return target_message("target", target)

    mask = message(bertscope.Answer("are", "is", mask=1, scale="probability"))
    assert (mask.mask.answer, mask.mask.other, mask.mask.mask, mask.scale) == ("are", "is", 1, 3)
    alone = message(bertscope.Answer("are"))
    assert not alone.mask.HasField("other")
    assert not alone.mask.HasField("mask")
    label = message(bertscope.TextLabel(other="negative"))
    assert (label.WhichOneof("kind"), label.label.label, label.label.other) == ("label", "", "negative")
    word = message(bertscope.WordLabel((0, 5, 1), "B-LOC")).word_label
    assert (word.word.end, word.word.segment, word.label, word.HasField("other")) == (5, 1, "B-LOC", False)
    answer = message(bertscope.PassageAnswer((3, 7))).answer.answer
    assert (answer.start, answer.end, answer.segment) == (3, 7, 1)
    similar = message(bertscope.SimilarTo(("a", "b"), "mean")).similarity
    assert (similar.other.text, similar.other.text_pair, similar.pooling) == ("a", "b", 3)
    assert message(bertscope.TextValue()).WhichOneof("kind") == "value"
    follows = message(bertscope.NextSentence("log_probability"))
    assert (follows.WhichOneof("kind"), follows.scale) == ("next_sentence", 2)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bertscope.Answer(3), "answer: must be a string"),
        (lambda: bertscope.Answer(" "), "answer: is empty"),
        (lambda: bertscope.Answer("a", mask=-1), "mask"),
        (lambda: bertscope.Answer("a", scale="nats"), "scale: must be one of"),
        (lambda: bertscope.TextLabel(""), "label: is empty"),
        (lambda: bertscope.WordLabel(3), "word: must be a tuple"),
        (lambda: bertscope.PassageAnswer((1,)), "answer: must be a tuple"),
        (lambda: bertscope.SimilarTo(3), "other"),
        (lambda: bertscope.SimilarTo("a", "sum"), "pooling"),
        (lambda: answered(TEXT, "are"), "target: must be targets"),
        (lambda: answered(TEXT, ["are"]), r"target\[0\]: must be one of Answer, "),
        (lambda: answered([TEXT, TEXT], [TARGET]), "target: has 1 and there are more texts"),
        (lambda: answered(TEXT, [TARGET, TARGET]), "target: has more than there are texts"),
        (lambda: answered(3), "inputs"),
        (lambda: answered([TEXT, 3]), r"inputs\[1\]"),
        (lambda: answered([TEXT, TEXT], spans=[(0, 3)]), "spans: are parts of one text"),
        (lambda: answered(TEXT, spans=[[(0, 3)], [(0, 3)]]), "spans: has more than"),
        (lambda: answered(TEXT, spans=[(0,)]), r"spans\[0\]\[0\]"),
        (lambda: answered(TEXT, spans=[3]), r"spans\[0\]\[0\]"),
        (lambda: request(method="shap"), "method: must be one of"),
        (lambda: request(absent="pad"), "absent"),
        (lambda: request(unit="span"), "unit"),
        (lambda: request(pairs=0), "pairs: must be at least 1"),
        (lambda: request(steps=0), "steps"),
        (lambda: request(tolerance=math.nan), "tolerance"),
        (lambda: request(interactions=1), "interactions"),
        (lambda: request(seed=-1), "seed"),
        (lambda: answered(LONG, pairs=40, first_pair=2**32 - 2), "first_pair: is 4294967294, too near"),
    ],
)
def test_what_can_not_be_sent_is_refused_by_its_field(make: Any, words: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=words):
        make()


def test_each_text_has_its_target_and_its_parts() -> None:
    asked = asked_sections([TEXT, ("a", "b")], TARGET, None, request())
    assert (asked.total, asked.numbers) == (2, [0, 1])
    assert [section.message.HasField("text_pair") for section in asked.items] == [False, True]
    targets = [TARGET, bertscope.TextLabel("x")]
    asked = asked_sections(iter([TEXT, TEXT]), iter(targets), iter([[(0, 3)], []]), request())
    assert asked.total is None
    sections = list(asked.items)
    assert [section.message.target.WhichOneof("kind") for section in sections] == ["mask", "label"]
    assert [len(section.message.spans) for section in sections] == [1, 0]
    assert [section.target for section in sections] == targets
    assert not next(asked_sections(TEXT, TARGET, [], request()).items).message.spans
    for alone in ([(0, 3), (4, 8, 0)], [[(0, 3), (4, 8)]], [np.array([0, 3]).tolist(), (np.int64(4), 8)]):
        (section,) = asked_sections(TEXT, TARGET, alone, request()).items
        assert [(span.start, span.end) for span in section.message.spans] == [(0, 3), (4, 8)]


def test_a_request_has_what_was_asked() -> None:
    asked = request(method="integrated_gradients", absent="zero", steps=20, max_steps=60, tolerance=0.1, unit="piece", seed=7)
    assert (asked.method, asked.absent, asked.unit, asked.seed) == (3, 3, 2, 7)
    assert (asked.steps, asked.max_steps, asked.tolerance) == (20, 60, 0.1)
    asked = request()
    assert (asked.method, asked.absent, asked.unit) == (1, 0, 1)
    assert not any(asked.HasField(name) for name in ("exact_units", "pairs", "steps", "max_steps", "tolerance"))
    asked = request(exact_units=0, pairs=3)
    assert (asked.exact_units, asked.HasField("exact_units"), asked.pairs) == (0, True, 3)


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


@pytest.mark.parametrize(
    "fields", [{"method": "occlusion"}, {"method": "frozen"}, {"interactions": True}, {"exact_units": 200}]
)
def test_only_sampled_texts_are_divided(fields: Any) -> None:
    (section,) = asked_sections(LONG, TARGET, None, request(**fields)).items
    assert (section.pairs, section.last) == (None, True)
    (section,) = asked_sections(TEXT, TARGET, None, request()).items
    assert section.pairs is None
    assert not with_sections(request(), [section]).HasField("pairs")
    assert len(list(asked_sections(LONG, TARGET, [(0, 3), (4, 7)], request()).items)) == 1


def test_a_call_has_sections_with_the_same_pairs() -> None:
    asked = asked_sections([TEXT, TEXT, LONG, TEXT, TEXT, TEXT], TARGET, None, request(pairs=20))
    pace = SectionPace(lambda section: section.work, None)
    pace.answered(10**12, 1.0)
    calls = []
    while call := list(pace.some(asked.items)):
        calls.append(call)
    assert [len(call) for call in calls] == [2, *[1] * (len(calls) - 2), 3]
    assert all(len({section.pairs for section in call}) == 1 for call in calls)


def test_long_lists_are_read_as_they_are_needed_and_answered_up_to_an_error() -> None:
    read = []

    def texts() -> Any:
        for index in range(10**6):
            read.append(index)
            yield TEXT if index < 5 else index

    found: list[Section] = []
    with pytest.raises(bertscope.InvalidArgument, match=r"inputs\[5\]"):
        found.extend(asked_sections(texts(), TARGET, None, request()).items)
    assert (len(found), len(read)) == (5, 6)
    assert asked_sections([TEXT] * (EAGER_TEXTS + 1), TARGET, None, request()).total is None


def test_sections_whose_text_has_few_words_after_all_are_exact() -> None:
    text = "Donaudampfschifffahrtsgesellschaft-" * 12
    asking = request(pairs=40, exact_units=6)
    assert len(list(asked_sections(text, TARGET, None, asking).items)) > 1
    (found,) = answered(text, pairs=40, exact_units=6)
    assert (found.pairs, found.sampled, found.interval()) == (0, (), None)


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


def test_intervals_are_those_of_students_t_over_the_pairs() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    (found,) = answered(words, pairs=5)
    ends = found.interval()
    assert ends is not None
    # Values 0 to 4: mean 2, standard error sqrt(2.5 / 5), and t(3, .975) = 3.182446.
    assert ends[0] == pytest.approx((2 - 3.182446 * math.sqrt(0.5), 2 + 3.182446 * math.sqrt(0.5)), abs=1e-5)
    assert ends[1] == (-1.0, -1.0)
    wider = found.interval(0.99)
    assert wider is not None
    assert wider[0].low < ends[0].low
    assert answered(words, pairs=4)[0].interval() is None
    assert answered(words.partition(" seven")[0], pairs=5, exact_units=2)[0].interval() is None
    assert answered(TEXT)[0].interval() is None
    with pytest.raises(bertscope.InvalidArgument, match="confidence"):
        found.interval(2)


def broken(change: Any, **fields: Any) -> Any:
    asking = request(**fields)
    (section,) = asked_sections("a b c d e f g h i j k l", TARGET, None, asking).items
    response = game(with_sections(asking, [section]))
    change(response)
    return read_sections(asking, [section], response)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda reply: reply.results.add(), "2 of 1"),
        (lambda reply: setattr(reply, "method", 2), "occlusion and not shapley"),
        (lambda reply: setattr(reply, "absent", 0), "unspecified"),
        (lambda reply: reply.results[0].values.pop(), "words"),
        (lambda reply: reply.results[0].sums.pop(), "sums"),
        (lambda reply: reply.results[0].sums_of_squares.pop(), "sums of squares"),
        (lambda reply: setattr(reply.results[0], "pairs", 3), "sampled 3 pairs and not 10"),
        (lambda reply: reply.results[0].values.__setitem__(0, math.nan), "not finite"),
        (lambda reply: reply.results[0].interactions.CopyFrom(tensor([[1.0]])), "sent interactions"),
    ],
)
def test_replies_that_break_the_contract(change: Any, words: str) -> None:
    broken(lambda reply: None)
    with pytest.raises(bertscope.InvalidReply, match=words):
        broken(change)


def test_interactions_have_the_shape_of_the_words() -> None:
    ((_, found),) = broken(lambda reply: None, interactions=True)
    np.testing.assert_array_equal(found.interactions, np.eye(12)[::-1])
    with pytest.raises(bertscope.InvalidReply, match="of shape"):
        broken(lambda reply: reply.results[0].interactions.CopyFrom(tensor([[1.0]])), interactions=True)
    with pytest.raises(bertscope.InvalidReply, match="no interactions"):
        broken(lambda reply: reply.results[0].ClearField("interactions"), interactions=True)


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


def test_tables() -> None:
    words = "one two three four five six seven eight nine ten eleven twelve"
    found = answered([TEXT, words], pairs=5)
    table = found.to_pandas()
    assert table.columns.tolist() == ["text", "segment", "word", "start", "end", "value", "low", "high"]
    assert table["word"].tolist() == [*TEXT.split(), *words.split()]
    assert table["low"].isna().sum() == 4
    assert len(found[0].to_pandas()) == 4
    assert word_columns([])["word"] == []
    row = found[0].to_row()
    assert (row["words"], row["values"], row["low"], row["error"]) == (TEXT.split(), [0.0, 1.0, 2.0, 3.0], None, None)
    assert found[1].to_row()["high"][1] == -1.0
    assert len(repr(found)) < 400
    assert found[:1].to_pandas()["value"].sum() == pytest.approx(found[0].value - found[0].value_absent)


def test_a_notebook_shows_signed_words_in_colour() -> None:
    (found,) = answered("<b>A</b> $x$ y z w v u t s r q p", pairs=5)
    page = found._repr_html_()
    assert "&lt;b&gt;A&lt;/b&gt;" in page
    assert "<b>A" not in page
    assert "rgba(36,112,179,0.700)" in page
    assert "rgba(217,113,28,0.350)" in page
    assert ">+2.00<" in page
    assert ">-1.00<" in page
    assert "95 % interval" in page
    assert "sum -9.00 = -6.00 - 3.00" in page
    assert "mathjax_ignore" in page
    many = bertscope.WordAttributions([found] * 12)._repr_html_()
    assert "2 more texts are not shown" in many
    assert "7 more words" in answered(" ".join(["word"] * 407), pairs=1)[0]._repr_html_()
