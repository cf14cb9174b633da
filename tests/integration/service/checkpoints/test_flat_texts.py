"""Texts of which only ids and masks are kept are the same as those of which all is kept."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from bertscope_service.checkpoints import tokenizer as tokenizer_module
from bertscope_service.checkpoints.encoding import LOCKED_CHARACTERS
from bertscope_service.checkpoints.flat_texts import read_flat
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import AddedToken, processors

from tests.support.tiny import SENTENCES

MAX_TOKENS = 64
INPUTS = [
    *((text,) for text in SENTENCES),
    ("no mask",),
    ("The [MASK] sat on a [MASK].",),
    ("[MASK]", "on the [MASK]"),
    ("un [MASK]",),
    ("an accent [MASK]\u0301 on it",),
    ("[MASK] cat " * 40,),
    ("[MASK] cat " * 40, "the [MASK]"),
    ("東京 は [MASK]",),
    ("[mask] \t[MASK]\n",),
    ("",),
    ("", ""),
]


def check_same(tokenizer: TextTokenizer, inputs: list[tuple[str, ...]], *, truncate: bool) -> None:
    whole = tokenizer.encode_all(inputs, truncate=truncate, reserve=3)
    flat = read_flat(tokenizer, inputs, truncate=truncate, reserve=3)
    assert len(flat) == len(whole)
    for index, (found, expected) in enumerate(zip(flat, whole, strict=True)):
        np.testing.assert_array_equal(found.sequence.ids, expected.sequence.ids)
        np.testing.assert_array_equal(found.sequence.segments, expected.sequence.segments)
        assert found.truncated == flat.truncated[index] == expected.truncated
        masks = tuple(place for place, token in enumerate(expected.sequence.ids) if token == tokenizer.mask_id)
        assert flat.masks[index] == masks
        assert flat.places[index] == tuple(map(expected.place, masks)) == tuple(map(found.place, masks))
        assert found.pieces(tokenizer) == expected.pieces(tokenizer)
        assert found.sequence.starts is not None
        assert expected.sequence.starts is not None
        np.testing.assert_array_equal(found.sequence.starts(), expected.sequence.starts())


@pytest.mark.parametrize("truncate", [False, True])
@pytest.mark.parametrize("architecture", ["bert", "roberta", "albert"])
def test_few_texts_and_many(checkpoint: Callable[[str], Path], architecture: str, truncate: bool) -> None:
    """Few are encoded one by one, many as a batch."""
    tokenizer = TextTokenizer.load(checkpoint(architecture), MAX_TOKENS)
    for texts in INPUTS:
        check_same(tokenizer, [texts], truncate=truncate)
    many = INPUTS * 8
    assert sum(len(text) for texts in many for text in texts) > LOCKED_CHARACTERS
    check_same(tokenizer, many, truncate=truncate)


def test_a_mask_inside_another_token_is_none(checkpoint: Callable[[str], Path]) -> None:
    tokenizer = TextTokenizer.load(checkpoint("bert"), MAX_TOKENS)
    tokenizer.backend.add_tokens([AddedToken("[MASK]s", normalized=False)])
    inputs: list[tuple[str, ...]] = [("one [MASK]s",), ("two [MASK]s and [MASK]",)]
    check_same(tokenizer, inputs, truncate=False)
    assert list(map(len, read_flat(tokenizer, inputs).masks)) == [0, 1]


def test_texts_in_parts_and_without_special_tokens(checkpoint: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """A mask may then be the first token, and each part has numbers of its own."""
    monkeypatch.setattr(tokenizer_module, "PART_CHARACTERS", 60)
    tokenizer = TextTokenizer.load(checkpoint("bert"), MAX_TOKENS)
    check_same(tokenizer, INPUTS, truncate=True)
    tokenizer.backend.post_processor = processors.Sequence([])
    alone = replace(tokenizer)
    check_same(alone, [("[MASK] cat",), ("the [MASK]",), ("[MASK]",)] * 9, truncate=False)
