"""The likeliest entries of a vocabulary, found by blocks. No model."""

import pytest
import torch
from bertscope_service.analyses.observers.reading import BLOCK, MIN_BLOCKS, likeliest

VOCABULARIES = [1, BLOCK - 1, BLOCK, BLOCK * MIN_BLOCKS * 5, BLOCK * MIN_BLOCKS * 5 + 1, 30_522]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("top_k", [1, 5, 100, 2000])
def test_the_likeliest_are_those_of_all_columns(vocabulary: int, top_k: int) -> None:
    top_k = min(top_k, vocabulary)
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    assert likeliest(logits, top_k).tolist() == logits.topk(top_k).indices.tolist()


@pytest.mark.parametrize("place", [0, BLOCK - 1, BLOCK, 30_522 // BLOCK * BLOCK - 1, 30_522 // BLOCK * BLOCK, 30_521])
def test_every_column_can_be_the_likeliest(place: int) -> None:
    logits = torch.zeros(1, 30_522)
    logits[0, place] = 1.0
    assert likeliest(logits, 5)[0, 0] == place


def test_equal_scores_are_each_named_once() -> None:
    logits = torch.randint(0, 3, (4, 30_522), generator=torch.Generator().manual_seed(5)).float()
    ids = likeliest(logits, 50)
    assert all(len(set(row)) == 50 for row in ids.tolist())
    assert torch.equal(logits.gather(1, ids), logits.topk(50).values)


def test_scores_that_are_no_numbers_are_not_hidden() -> None:
    logits = torch.zeros(1, 30_522)
    logits[0, 12_345] = float("nan")
    assert 12_345 in likeliest(logits, 5)[0].tolist()


def test_no_entries_are_none() -> None:
    assert likeliest(torch.zeros(2, 30_522), 0).shape == (2, 0)
