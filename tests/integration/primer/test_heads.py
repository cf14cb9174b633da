"""Measures of heads on a tiny random model: finite numbers, equal to those of transformers, and refusals in words."""

import math
from collections.abc import Iterator
from pathlib import Path

import bertscope
import numpy as np
import pytest
import torch
from bertscope_workbench.primer.asking import Asking
from bertscope_workbench.primer.claim import ClaimTest, read_claims
from bertscope_workbench.primer.data import Data
from bertscope_workbench.primer.estimates import NotAsked
from bertscope_workbench.primer.measures import attention, silencing
from bertscope_workbench.primer.measures.sentences import described, sentences, special_tokens, statistic
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.harness import Host

LIMIT = 6
SECTIONS = ("5.1", "6 and 7", "Dark Secrets", "since")
TESTS = [(claim.name, test) for claim in read_claims() if claim.section in SECTIONS for test in claim.tests]


@pytest.fixture(scope="module")
def asking(host: Host) -> Iterator[Asking]:
    with bertscope.Client(host.target) as client:
        yield Asking(client, client.get_model("bert"), data=Data(limit=LIMIT))


@pytest.mark.parametrize("test", [pytest.param(test, id=f"{name}, {test.name}") for name, test in TESTS])
def test_measures_are_finite(asking: Asking, test: ClaimTest) -> None:
    try:
        found = test.function(asking, **test.options)
    except NotAsked as error:
        assert "--" in str(error)  # it names the option that is missing
        return
    assert math.isfinite(found.value)
    assert found.low <= found.difference <= found.high or math.isnan(found.low)
    assert found.items > 1


def test_statistics_are_those_of_transformers(asking: Asking, checkpoints: dict[str, Path]) -> None:
    model = AutoModelForMaskedLM.from_pretrained(checkpoints["bert"], attn_implementation="eager").eval()
    tokenizer = AutoTokenizer.from_pretrained(checkpoints["bert"])
    ends = statistic(asking, "separators")
    for text, found in zip(sentences(asking), ends, strict=True):
        encoded = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            maps = torch.stack(model(**encoded, output_attentions=True).attentions)[:, 0]
        torch.testing.assert_close(torch.tensor(found, dtype=torch.float32), maps[..., -1].mean(-1), atol=1e-5, rtol=1e-4)
    assert special_tokens(asking) == 2


def test_uniform_attention_is_the_share_of_special_tokens(asking: Asking) -> None:
    found = attention.special_mass(asking)
    assert found.control == pytest.approx(np.mean([2 / text.tokens for text in described(asking)]))


def test_silencing_nothing_changes_nothing(asking: Asking) -> None:
    everything = dict.fromkeys(range(asking.model.layers))
    found = silencing.losses(asking, [{0: [0]}, everything, {1: [1], 0: [0]}])
    assert found.shape == (LIMIT, 4)
    swept = silencing.losses(asking, [{1: [1], 0: [0]}])
    np.testing.assert_allclose(found[:, [0, 3]], swept, atol=1e-5)
    assert np.abs(found[:, 0] - found[:, 2]).min() > 1e-4
    measured = silencing.all_silenced(asking)
    assert measured.value == pytest.approx(found[:, 2].mean(), abs=1e-5)


def test_a_language_without_sentences_is_refused(asking: Asking) -> None:
    other = Asking(asking.client, asking.model, languages=("xx",))
    with pytest.raises(NotAsked, match="'xx'"):
        attention.special_mass(other)
