"""The likeliest entries of a vocabulary, found by blocks; log-probabilities and ranks of given ones. No model."""

import pytest
import torch
from bertscope_service.analyses.observers import reading
from bertscope_service.analyses.observers.reading import BLOCK, FEW_ON_CPU, MIN_BLOCKS, likeliest, log_probabilities, ranks_of

from tests.support.limits import limit_sizes

VOCABULARIES = [1, BLOCK, BLOCK * MIN_BLOCKS * 5, BLOCK * MIN_BLOCKS * 5 + 1, 30_522]


@pytest.mark.parametrize("vocabulary", VOCABULARIES)
@pytest.mark.parametrize("top_k", [5, 2000])
def test_the_likeliest_are_those_of_all_columns(vocabulary: int, top_k: int) -> None:
    top_k = min(top_k, vocabulary)
    logits = torch.randn(3, vocabulary, generator=torch.Generator().manual_seed(vocabulary))
    assert likeliest(logits, top_k).tolist() == logits.topk(top_k).indices.tolist()


def test_the_likeliest_are_the_same_on_a_cpu_that_finds_no_maxima_by_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    logits = torch.randn(3, 30_522, generator=torch.Generator().manual_seed(5))
    by_blocks = likeliest(logits, 5)
    monkeypatch.setattr(reading, "BLOCKS_PAY", not reading.BLOCKS_PAY)
    assert torch.equal(likeliest(logits, 5), by_blocks)


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


@pytest.mark.parametrize("at_a_time", [1, 2, 100])
def test_log_probabilities_are_those_of_a_softmax(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limit_sizes(monkeypatch, softmax_bytes=at_a_time * 4 * 700)
    logits = torch.randn(5, 700, generator=torch.Generator().manual_seed(5)) * 4
    ids = torch.randint(0, 700, (5, 3), generator=torch.Generator().manual_seed(6))
    expected = logits.double().log_softmax(dim=-1).gather(1, ids)
    torch.testing.assert_close(log_probabilities(logits, ids).double(), expected, atol=2e-6, rtol=1e-6)


def test_large_scores_do_not_overflow() -> None:
    assert log_probabilities(torch.tensor([[1e4, 0.0, -1e4]]), torch.tensor([[0, 1]])).tolist() == [[0.0, -1e4]]


@pytest.mark.parametrize("at_a_time", [1, 2, 100])
@pytest.mark.parametrize("asked", [1, 5, FEW_ON_CPU, FEW_ON_CPU + 1])
def test_a_rank_counts_the_entries_that_are_strictly_likelier(
    asked: int, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_sizes(monkeypatch, softmax_bytes=at_a_time * 4 * 700)
    logits = torch.randint(0, 300, (5, 700), generator=torch.Generator().manual_seed(5)).float()
    found = logits[:, :asked].contiguous()
    assert torch.equal(ranks_of(logits, found), 1 + (logits[:, None, :] > found[:, :, None]).sum(dim=2))


def test_a_score_that_is_no_number_has_no_likelier_entries() -> None:
    logits = torch.full((2, 700), float("nan"))
    assert ranks_of(logits, logits[:, :2]).tolist() == [[1, 1], [1, 1]]
