"""Texts to score, how they are divided, and the scores that come back: sums, words, tables, figures."""

from typing import Any

import bertscope
import bertscope_workbench as workbench
from bertscope.questions.scores.inputs import Section, asked_sections, sections_of
from bertscope.questions.scores.texts import Assembly, read_sections, score_columns
from bertscope.v1 import cloze_scores_pb2 as scores_pb2
from bertscope_workbench.plots.scores import MAX_ROWS, WORDS_IN_ROW

from tests.support.broken_replies import refusals
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


def test_scored_texts(stored) -> None:
    sections: list[Section] = list(asked_sections([TEXT, ("a b", "c")]).items)
    assert FOUND[0].words is FOUND[0].words
    good = reply(UNPLAYABLE, result(piece(0, 0, 1, -1.0), piece(0, 0, 1, -4.0, segment=1)))
    words = [piece(index, index, index + 1, -1.0) for index in range(2 * WORDS_IN_ROW + 1)]
    many = whole([TEXT] * (MAX_ROWS + 2), *[UNPLAYABLE] * (MAX_ROWS + 2))
    parts = list(sections_of(0, LONG))
    sums = [result(piece(index, 4 * index, 4 * index + 3, -1.0 - index)) for index in range(len(parts) - 1)]
    (added,) = whole([LONG], *sums, result())  # the last section may be empty
    counts = [added.log_likelihood, added.scored_pieces, added.scored_words, len(added.pieces)]
    stored(
        texts=FOUND,
        computed=[FOUND.log_likelihood, FOUND.scored_pieces, FOUND.pseudo_perplexity, FOUND[:0].pseudo_perplexity],
        words=FOUND.to_pandas("word"),
        pieces=FOUND.to_pandas("piece"),
        words_of_one=FOUND[0].to_pandas(),
        no_words=score_columns([], "word"),
        sections_add_up=counts,
        figure=workbench.plot_surprisal(FOUND),
        dark=workbench.plot_surprisal(FOUND[0], title="mine", dark=True),
        rows=[len(axes.patches) for axes in workbench.plot_surprisal(whole(["a" * 50], result(*words))).axes],
        very_many=workbench.plot_surprisal(many).get_suptitle(),
        refused=[
            lambda: FOUND.to_pandas("letter"),  # type: ignore[arg-type]
            lambda: workbench.plot_surprisal(whole(["a"], result(scored_pieces=1))),
        ],
        broken=refusals(lambda messages: [Assembly().add(score) for score in read_sections(sections, *messages)], good),
        no_piece=lambda: whole(["a"], result()),
    )


def test_requests(stored) -> None:
    given = "The cat sat.", ("The cat", "sat."), bertscope.conditional("The", "cat")
    stored(
        sections=[list(asked_sections(each).items) for each in given],
        without_a_blank=[next(sections_of(0, "河" * 400)).work > 100_000, len(list(sections_of(0, "a")))],
        refused=[
            lambda: bertscope.conditional("The keys", " "),
            lambda: bertscope.conditional(1, "a"),
            lambda: bertscope.ScoredInput.from_bars("The keys"),
            lambda: bertscope.ScoredInput.from_bars("The keys | "),
            lambda: bertscope.ScoredInput("The keys", [(1,)]),
            lambda: bertscope.ScoredInput("The keys", [(-1, 2)]),
            lambda: asked_sections(7),
            lambda: asked_sections(["a", 7]),
            lambda: asked_sections([("a", "b", "c")]),
        ],
    )
