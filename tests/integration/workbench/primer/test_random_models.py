"""A model of random weights satisfies no claim that takes training: this is what gives the other verdicts a meaning."""

from collections.abc import Iterator

import bertscope
import pytest
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from bertscope_workbench.primer.claim import read_claims
from bertscope_workbench.primer.run import run_primer
from bertscope_workbench.primer.verdicts import HOLDS, NOT_ASKED
from transformers import AutoTokenizer, BertConfig, BertForMaskedLM

from tests.support.harness import Host, LoopThread, launched

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
CLAIMS = read_claims()


@pytest.fixture(scope="module")
def host(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A server with a random model of 4 layers x 128 and the embedded model's vocabulary."""
    folder = tmp_path_factory.mktemp("random")
    torch.manual_seed(11)
    AutoTokenizer.from_pretrained(EMBEDDED_FOLDER).save_pretrained(folder)
    config = BertConfig(num_hidden_layers=4, hidden_size=128, num_attention_heads=4, intermediate_size=512)
    BertForMaskedLM(config).save_pretrained(folder)
    with launched(loop, model=[f"random={folder}"]) as running:
        yield running


@pytest.mark.parametrize("section", dict.fromkeys(claim.section for claim in CLAIMS))
def test_no_claim_holds_that_takes_training(host: Host, section: str) -> None:
    claims = [claim for claim in CLAIMS if claim.section == section]
    with bertscope.Client(host.target) as client:
        primer = run_primer(client, claims)
    (results,) = primer.models
    assert not [each.claim.name for each in results.claims if each.claim.learned and each.verdict == HOLDS]
    assert all(each.verdict != NOT_ASKED or each.why for each in results.claims)
