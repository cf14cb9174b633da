"""Words of several texts at once: those of the caller, the tokenizer's, and pieces."""

import numpy as np
import pytest
from bertscope_service.analyses.aligned_words import AlignedTexts
from bertscope_service.analyses.observers.word_maps import NOWHERE, SPECIAL
from bertscope_service.analyses.words import Span
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from tokenizers import processors

from tests.support.made_tokenizers import reads, word_pieces

TEXTS = [("unplayable songs",), ("song", "un play"), ("songs",)]
SPANS = [[Span(0, 2, 0), Span(2, 10, 0), Span(10, 11, 0), Span(15, 16, 0)], [Span(0, 4, 0), Span(0, 7, 1)], []]


@pytest.fixture
def texts() -> list[TokenizedText]:
    backend = word_pieces("[CLS]", "[SEP]", "un", "play", "##play", "##able", "song", "##s")
    backend.post_processor = processors.BertProcessing(("[SEP]", 2), ("[CLS]", 1))
    return reads(backend).encode_all(TEXTS)


def words(found: AlignedTexts) -> list[tuple[list[int], list[int], tuple[int, ...]]]:
    return [(each.of_piece.tolist(), each.segments.tolist(), each.places) for each in found.each()]


def test_pieces_are_words_of_the_tokenizer_where_the_caller_names_none(texts: list[TokenizedText]) -> None:
    assert words(AlignedTexts(texts, [(), (), ()])) == [
        ([0, 1, 1, 1, 2, 2, 3], [SPECIAL, 0, 0, SPECIAL], ()),
        ([0, 1, 2, 3, 4, 5], [SPECIAL, 0, SPECIAL, 1, 1, SPECIAL], ()),
        ([0, 1, 1, 2], [SPECIAL, 0, SPECIAL], ()),
    ]


def test_a_piece_belongs_to_the_span_that_holds_its_first_character(texts: list[TokenizedText]) -> None:
    """What is outside stays the tokenizer's word; a span may have no piece."""
    found = AlignedTexts(texts, SPANS)
    assert words(found) == [
        ([0, 1, 2, 2, 3, 4, 5], [SPECIAL, 0, 0, 0, 0, SPECIAL], (1, 2, NOWHERE, 4)),
        ([0, 1, 2, 3, 3, 4], [SPECIAL, 0, SPECIAL, 1, SPECIAL], (1, 3)),
        ([0, 1, 1, 2], [SPECIAL, 0, SPECIAL], ()),
    ]
    assert found.words[found.words[:, 2] == 1].tolist() == [[0, 7, 1]]


def test_each_piece_may_be_a_word_and_texts_know_where_their_tokens_begin(texts: list[TokenizedText]) -> None:
    found = AlignedTexts(texts, None)
    assert [each.of_piece.tolist() for each in found.each()] == [list(range(len(text))) for text in texts]
    for text, (tokens, _, _) in zip(texts, found.of_texts, strict=True):
        assert text.sequence.starts is not None
        np.testing.assert_array_equal(found.starts[tokens], text.sequence.starts())
