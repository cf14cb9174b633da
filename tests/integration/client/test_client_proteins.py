"""Substitutions of a protein: the client's scores are those of transformers, through a real server."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import bertscope
import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.harness import Host, launched
from tests.support.proteins import write_proteins

SEQUENCE = "MKTAYIAKQRX"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_proteins(tmp_path_factory.mktemp("proteins") / "esm")


@pytest.fixture(scope="module")
def host(folder: Path, loop: asyncio.AbstractEventLoop) -> Iterator[Host]:
    with launched(loop, model=[f"esm={folder}"]) as running:
        yield running


@torch.inference_mode()
def test_scores_are_those_of_transformers(host: Host, folder: Path) -> None:
    model, tokenizer = AutoModelForMaskedLM.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
    with bertscope.Client(host.target) as client:
        found = client.score_substitutions(" ".join(SEQUENCE))
    assert (found.sequence, found.letters) == (SEQUENCE, bertscope.AMINO_ACIDS)
    ids = tokenizer.convert_tokens_to_ids(list(found.letters))
    for place, there in enumerate(SEQUENCE):
        given = tokenizer(SEQUENCE, return_tensors="pt")
        given["input_ids"][0, place + 1] = tokenizer.mask_token_id
        logs = model(**given).logits[0, place + 1].double().log_softmax(dim=-1)
        np.testing.assert_allclose(found.log_probabilities[:, place], logs[ids], rtol=0, atol=1e-4)
        np.testing.assert_allclose(found.wild_type[place], logs[tokenizer.convert_tokens_to_ids(there)], rtol=0, atol=1e-4)
    assert found.score("K2R:T3A") == pytest.approx(found.score("K2R") + found.score("T3A"))
    assert found.score("K2K") == 0


def test_a_silent_head_changes_scores(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        whole = client.score_substitutions("MKTAY", letters="VW")
        silenced = client.score_substitutions("MKTAY", letters="VW", interventions=bertscope.zero(1, [2]))
    assert whole.log_odds.shape == (2, 5)
    assert not np.allclose(whole.log_odds, silenced.log_odds)


def test_a_sequence_that_is_too_long_is_named(host: Host) -> None:
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match="score a part") as caught:
        client.score_substitutions("M" * 100)
    assert caught.value.field_violations[0].field == "sequence"
