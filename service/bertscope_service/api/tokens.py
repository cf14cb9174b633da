"""Rendering of the tokens that a model read: bertscope.v1.Token."""

from __future__ import annotations

from bertscope.v1 import common_pb2

from bertscope_service.analyses.words import Word
from bertscope_service.checkpoints.tokenized_text import Piece


def render_token(token: Piece | Word) -> common_pb2.Token:
    """Renders a piece, or a word with its pieces."""
    return render_word(token) if isinstance(token, Word) else render_piece(token)


def render_piece(piece: Piece) -> common_pb2.Token:
    return common_pb2.Token(
        text=piece.text,
        id=piece.id,
        start=piece.start,
        end=piece.end,
        special=piece.special,
        word=piece.word,
        segment=piece.segment,
    )


def render_word(word: Word) -> common_pb2.Token:
    first = word.pieces[0]
    return common_pb2.Token(
        text=word.text,
        id=first.id if len(word.pieces) == 1 else None,
        start=word.start,
        end=word.end,
        special=first.special,
        word=first.word,
        segment=first.segment,
        pieces=[piece.text for piece in word.pieces],
    )
