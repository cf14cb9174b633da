"""Substitutions of a protein: the client's scores are those of transformers, through a real server."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
import torch
from bertscope_workbench.analyses import contacts
from bertscope_workbench.command.app import run
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
        found = workbench.score_substitutions(client, " ".join(SEQUENCE))
    assert (found.sequence, found.letters) == (SEQUENCE, workbench.AMINO_ACIDS)
    ids = tokenizer.convert_tokens_to_ids(list(found.letters))
    for place, there in enumerate(SEQUENCE):
        given = tokenizer(SEQUENCE, return_tensors="pt")
        given["input_ids"][0, place + 1] = tokenizer.mask_token_id
        logs = model(**given).logits[0, place + 1].double().log_softmax(dim=-1)
        np.testing.assert_allclose(found.log_probabilities[:, place], logs[ids], rtol=0, atol=1e-4)
        np.testing.assert_allclose(found.wild_type[place], logs[tokenizer.convert_tokens_to_ids(there)], rtol=0, atol=1e-4)
    assert found.score("K2R:T3A") == pytest.approx(found.score("K2R") + found.score("T3A"))
    assert found.score("K2K") == 0


def test_a_sequence_that_is_too_long_is_named(host: Host) -> None:
    with bertscope.Client(host.target) as client, pytest.raises(bertscope.InvalidArgument, match="score a part") as caught:
        workbench.score_substitutions(client, "M" * 100)
    assert caught.value.field_violations[0].field == "sequence"


CONTACTS = np.zeros((11, 11))
CONTACTS[[0, 9, 2, 10, 1, 8, 3, 4], [9, 0, 10, 2, 8, 1, 4, 3]] = 1
"""Three contacts of residues at least 7 apart, and one of neighbours."""


@torch.inference_mode()
@pytest.mark.parametrize("part", [1, 2**30])
def test_attention_to_contacts_is_that_of_transformers_maps(
    host: Host, folder: Path, part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether layers are asked for one at a time or all together."""
    monkeypatch.setattr(contacts, "MAP_BYTES", part)
    model = AutoModelForMaskedLM.from_pretrained(folder, attn_implementation="eager").eval()
    given = AutoTokenizer.from_pretrained(folder)(SEQUENCE, return_tensors="pt")
    maps = torch.cat(model(**given, output_attentions=True).attentions).double().numpy()[:, :, 1:-1, 1:-1]
    threshold = float(np.median(maps))
    with bertscope.Client(host.target) as client:
        found = workbench.score_contacts(client, " ".join(SEQUENCE), CONTACTS, threshold=threshold)
        relation = client.score_relations(workbench.contact_relations(SEQUENCE, CONTACTS))["contact"]
    shares = np.zeros(maps.shape[:2])
    weights, counts = shares.copy(), shares.copy()
    for layer, head in np.ndindex(shares.shape):
        high = touching = weight = held = 0.0
        for i in range(11):
            for j in range(11):
                if abs(i - j) < 6:
                    continue
                weight += maps[layer, head, i, j]
                held += maps[layer, head, i, j] * CONTACTS[i, j]
                high += maps[layer, head, i, j] > threshold
                touching += (maps[layer, head, i, j] > threshold) * CONTACTS[i, j]
        shares[layer, head] = touching / high if high else np.nan
        counts[layer, head], weights[layer, head] = high, held / weight
    np.testing.assert_allclose(found.share, shares, atol=1e-6)
    np.testing.assert_array_equal(found.attended, counts)
    np.testing.assert_allclose(found.weight_share, weights, atol=1e-5)
    assert found.base_rate == 6 / 30
    layer, head = found.best(1)[0]
    assert found.share[layer, head] == np.nanmax(shares)
    assert len(found.to_pandas()) == shares.size
    assert relation.pairs == 3


def test_contacts_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with bertscope.Client("127.0.0.1:1") as client:
        for bad, said in (
            (CONTACTS[:, :5], "square"),
            (np.eye(5), "of 5 residues, and the sequence has 11"),
            (np.triu(CONTACTS), "symmetric"),
            (CONTACTS * 3.5, "0 and 1"),
            (np.eye(11), "at least 6 apart"),
        ):
            with pytest.raises(bertscope.InvalidArgument, match=said):
                workbench.score_contacts(client, SEQUENCE, bad)
    distances = np.where(CONTACTS == 1, 7.9, 8.0)
    distances[5, 5] = np.nan
    np.save(tmp_path / "a.npy", distances)
    np.savetxt(tmp_path / "a.csv", CONTACTS, delimiter=",", fmt="%d")
    for name in ("a.npy", "a.csv"):
        np.testing.assert_array_equal(workbench.read_contacts(tmp_path / name), CONTACTS == 1)
    (tmp_path / "b.csv").write_text("a,b\n", encoding="utf-8")
    with pytest.raises(bertscope.InvalidArgument, match="not a matrix of numbers"):
        workbench.read_contacts(tmp_path / "b.csv")
    with pytest.raises(bertscope.InvalidArgument, match="must end with"):
        workbench.read_contacts(tmp_path / "b.pdb")


def test_the_command_names_the_heads(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt(tmp_path / "map.tsv", CONTACTS, delimiter="\t", fmt="%d")
    asked = ["contacts", SEQUENCE, str(tmp_path / "map.tsv"), "--target", host.target]
    assert run([*asked, "--threshold", "0.05", "--top", "3", "--output", str(tmp_path / "heads.csv")]) == 0
    printed = capsys.readouterr().out
    assert "20.0% of the pairs of 11 residues at least 6 apart" in printed
    rows = (tmp_path / "heads.csv").read_text(encoding="utf-8").splitlines()
    assert rows[0] == "layer,head,share,attended,weight_share"
    assert len(rows) == 17
    assert run([*asked, "--json", "--threshold", "1"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["base_rate"] == 0.2
    assert set(found["share"]) == {None}
    assert run([*asked, "--threshold", "1"]) == 0
    assert "no head has a weight over 1" in capsys.readouterr().out
