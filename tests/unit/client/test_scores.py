"""Texts to score, how they are divided, and the scores that come back: sums, words, tables, figures."""

from __future__ import annotations

import math
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.scores.inputs import Section, asked_sections, sections_of
from bertscope.questions.scores.replies import Assembly, read_sections
from bertscope.questions.scores.texts import score_columns
from bertscope.rpc.sections import EAGER_TEXTS
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope_workbench.plots.scores import MAX_ROWS, WORDS_IN_ROW

from tests.support.descriptions import PROVENANCE

LONG = "The old man walked to the market every day. " * 60


def piece(word: int, start: int, end: int, log: float, segment: int = 0, text: str = "x") -> scores_pb2.ScoredPiece:
    return scores_pb2.ScoredPiece(text=text, id=7, start=start, end=end, segment=segment, word=word, log_probability=log)


def reply(*results: scores_pb2.ScoredText) -> scores_pb2.ScoreTextsResponse:
    return scores_pb2.ScoreTextsResponse(results=results, scoring=2, provenance=PROVENANCE)


def result(*pieces: scores_pb2.ScoredPiece, **fields: Any) -> scores_pb2.ScoredText:
    total = sum(piece.log_probability for piece in pieces)
    words = len({(piece.segment, piece.word) for piece in pieces})
    counts = {"log_likelihood": total, "scored_pieces": len(pieces), "scored_words": words, "tokens": 9}
    return scores_pb2.ScoredText(**counts | fields, pieces=pieces)


def whole(texts: Any, *results: scores_pb2.ScoredText) -> bertscope.ScoredTexts:
    assembly, sections = Assembly(), list(asked_sections(texts).items)
    joined = [assembly.add(score) for score in read_sections(sections, reply(*results))]
    return bertscope.ScoredTexts([text for text in joined if text is not None])


UNPLAYABLE = result(piece(0, 0, 3, -1.0), piece(1, 4, 6, -2.0), piece(1, 6, 14, -3.0), piece(2, 14, 15, -0.5))
TEXT = "The unplayable."
FOUND = whole([TEXT, ("a b", "c")], UNPLAYABLE, result(piece(0, 0, 1, -1.0), piece(0, 0, 1, -4.0, segment=1)))


def test_a_conditional_score_marks_the_continuation() -> None:
    for given in (
        bertscope.conditional("The keys to the cabinet", "are"),
        bertscope.conditional("The keys to the cabinet ", "are"),
        bertscope.ScoredInput.from_bars("The keys to the cabinet | are"),
        bertscope.ScoredInput.from_bars("The keys to the cabinet|are"),
    ):
        assert (given.text, given.parts) == ("The keys to the cabinet are", (bertscope.Span(24, 27),))
    given = bertscope.conditional("The keys", " are", ".")
    assert (given.text, given.parts) == ("The keys are.", ((9, 12, 0),))
    assert bertscope.conditional("", "Keys", "are old").text == "Keys are old"
    given = bertscope.ScoredInput.from_bars("The keys | are | old, and | rusty | .")
    assert given.text == "The keys are old, and rusty."
    assert [given.text[part.start : part.end] for part in given.parts] == ["are", "rusty"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: bertscope.conditional("The keys", " "), "continuation"),
        (lambda: bertscope.conditional(1, "a"), "context"),
        (lambda: bertscope.ScoredInput.from_bars("The keys"), "needs a bar"),
        (lambda: bertscope.ScoredInput.from_bars("The keys | "), "needs a bar"),
        (lambda: bertscope.ScoredInput("The keys", [(1,)]), r"parts\[0\]"),
        (lambda: bertscope.ScoredInput("The keys", [(-1, 2)]), r"parts\[0\]"),
        (lambda: bertscope.ScoredInput(b"The keys"), "text"),
        (lambda: asked_sections(7), "inputs"),
        (lambda: asked_sections(["a", 7]), r"inputs\[1\]"),
        (lambda: asked_sections([("a", "b", "c")]), r"inputs\[0\]"),
    ],
)
def test_what_can_not_be_sent_is_refused_by_its_field(make: Any, words: str) -> None:
    with pytest.raises(bertscope.InvalidArgument, match=words):
        make()


@pytest.mark.parametrize("given", ["The cat sat.", ("The cat", "sat."), bertscope.conditional("The", "cat")])
def test_one_text_is_one_section(given: Any) -> None:
    asked = asked_sections(given)
    (section,) = asked.items
    assert (asked.total, asked.numbers, section.last, section.number) == (1, [0], True, 0)
    assert not section.message.HasField("max_words")
    assert section.message.HasField("text_pair") == isinstance(given, tuple)
    assert len(section.message.spans) == isinstance(given, bertscope.ScoredInput)


def test_a_long_text_is_divided_into_sections_of_its_words() -> None:
    sections = list(sections_of(3, LONG))
    assert len(sections) > 10
    assert [section.last for section in sections] == [False] * (len(sections) - 1) + [True]
    stop = 0
    for section in sections:
        assert (section.number, section.message.text) == (3, LONG)
        assert section.message.skip_words == stop
        assert section.message.HasField("max_words") != section.last
        stop += section.message.max_words
    work = [section.work for section in sections[:-1]]
    assert max(work) < 2 * min(work)
    few = list(sections_of(0, bertscope.ScoredInput(LONG, [(0, 40)])))
    assert len(few) == 1


def test_a_text_without_a_blank_is_divided_by_its_length() -> None:
    (section,) = sections_of(0, "河" * 400)
    assert section.work > 100_000
    assert len(list(sections_of(0, "a"))) == 1


def test_long_lists_are_read_as_they_are_needed() -> None:
    assert asked_sections(["a"] * EAGER_TEXTS).total == EAGER_TEXTS
    asked = asked_sections(["a", LONG, *["b"] * EAGER_TEXTS])
    assert asked.total is None
    assert asked.numbers == []
    found = list(asked.items)
    assert asked.numbers == [section.number for section in found]
    assert list(asked_sections(iter([])).items) == []


def test_sections_of_a_text_add_up() -> None:
    sections = list(sections_of(0, LONG))
    parts = [result(piece(index, 4 * index, 4 * index + 3, -1.0 - index)) for index in range(len(sections) - 1)]
    (found,) = whole([LONG], *parts, result())  # the last section may be empty
    count = len(parts)
    assert (found.scored_pieces, found.scored_words, len(found.pieces)) == (count, count, count)
    assert found.log_likelihood == pytest.approx(-count * (count + 1) / 2)


def test_a_text_of_which_a_section_is_rejected_is_left_out() -> None:
    told = []
    assembly, error = Assembly(), bertscope.InvalidArgument("no")
    reject = assembly.rejecting(lambda index, error: told.append((index, error)))
    reject(0, error)
    reject(0, error)
    assert told == [(0, error)]
    first, *_, last = sections_of(0, LONG)
    (other,) = sections_of(1, "a")
    scores = read_sections([first, last, other], reply(UNPLAYABLE, UNPLAYABLE, UNPLAYABLE))
    assert [assembly.add(score) is not None for score in scores] == [False, False, True]


def test_replies_that_break_the_contract() -> None:
    sections: list[Section] = list(asked_sections(["a", "b"]).items)
    with pytest.raises(bertscope.InvalidReply, match="1 of 2"):
        read_sections(sections, reply(UNPLAYABLE))
    with pytest.raises(bertscope.InvalidReply, match="no piece"):
        whole(["a"], result())


def test_words_are_sums_of_their_pieces() -> None:
    scored = FOUND[0]
    assert [word.text for word in scored.words] == ["The", "unplayable", "."]
    assert [len(word.pieces) for word in scored.words] == [1, 2, 1]
    assert [word.log_probability for word in scored.words] == [-1.0, -5.0, -0.5]
    assert scored.words[1].surprisal_bits == pytest.approx(5 / math.log(2))
    assert scored.words is scored.words
    assert scored.pseudo_perplexity == pytest.approx(math.exp(6.5 / 4))
    assert scored.scoring == "within_word"
    assert [(word.text, word.segment) for word in FOUND[1].words] == [("a", 0), ("c", 1)]


def test_a_corpus_has_one_perplexity() -> None:
    assert (FOUND.log_likelihood, FOUND.scored_pieces) == (-11.5, 6)
    assert FOUND.pseudo_perplexity == pytest.approx(math.exp(11.5 / 6))
    assert math.isnan(FOUND[:0].pseudo_perplexity)
    assert isinstance(FOUND[:1], bertscope.ScoredTexts)


def test_tables() -> None:
    texts = FOUND.to_pandas()
    assert texts["text"].tolist() == [TEXT, "a b"]
    assert texts["text_pair"].tolist()[1] == "c"
    assert texts["scored_pieces"].tolist() == [4, 2]
    words = FOUND.to_pandas("word")
    assert words["word"].tolist() == ["The", "unplayable", ".", "a", "c"]
    assert words["index"].tolist() == [0, 0, 0, 1, 1]
    pieces = FOUND.to_pandas("piece")
    np.testing.assert_allclose(pieces["surprisal_bits"] * math.log(2), -pieces["log_probability"])
    assert len(pieces) == 6
    assert len(FOUND[0].to_pandas()) == 3
    assert score_columns([], "word")["word"] == []
    with pytest.raises(bertscope.InvalidArgument, match="level"):
        FOUND.to_pandas("letter")  # type: ignore[arg-type]


def test_a_figure_has_a_bar_for_each_word() -> None:
    figure = bertscope.plot_surprisal(FOUND, dark=True)
    heights = [bar.get_height() for axes in figure.axes for bar in axes.patches]
    assert heights == pytest.approx([word.surprisal_bits for scored in FOUND for word in scored.words])
    assert len(figure.axes) == 2
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == ["The", "unplayable", "."]
    assert "models/fake, 2 texts" in figure.get_suptitle()
    alone = bertscope.plot_surprisal(FOUND[0], title="mine")
    assert alone.get_suptitle() == "mine"


def test_a_figure_of_many_words_has_rows_up_to_a_number() -> None:
    words = [piece(index, index, index + 1, -1.0) for index in range(2 * WORDS_IN_ROW + 1)]
    found = whole(["a" * 50], result(*words))
    assert [len(axes.patches) for axes in bertscope.plot_surprisal(found).axes] == [13, 13, 11]
    many = whole([TEXT] * (MAX_ROWS + 2), *[UNPLAYABLE] * (MAX_ROWS + 2))
    figure = bertscope.plot_surprisal(many)
    assert (len(figure.axes), "2 more rows" in figure.get_suptitle()) == (MAX_ROWS, True)


def test_nothing_to_draw(tmp_path: Any) -> None:
    with pytest.raises(bertscope.InvalidArgument, match="pieces=True"):
        bertscope.plot_surprisal(whole(["a"], result(scored_pieces=1)))
    with pytest.raises(ValueError, match="must end with"):
        bertscope.save_surprisal(FOUND, tmp_path / "a.gif")
    bertscope.save_surprisal(FOUND, tmp_path / "a.svg")
    assert (tmp_path / "a.svg").stat().st_size > 1000
