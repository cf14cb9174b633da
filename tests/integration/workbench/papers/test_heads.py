"""Measures of heads on a tiny random model: finite numbers, equal to those of transformers, and refusals in words."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import bertscope
import numpy as np
import pytest
import torch
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.measures import features, pointing, relations, silencing, sizes
from bertscope_workbench.papers.measures.sentences import sentences, special_tokens, statistic
from bertscope_workbench.papers.pictures_data import Grid
from bertscope_workbench.readers.treebanks import feature_text, relation_text
from transformers import AutoModelForMaskedLM, AutoTokenizer

from tests.support.harness import Host

LIMIT = 8
MODULES = ("attention", "attributing", "features", "pointing", "relations", "silencing", "sizes")
TESTS = [(claim.name, test) for claim in read_claims() for test in claim.tests if test.measure.partition(".")[0] in MODULES]


@pytest.fixture(scope="module")
def asking(host: Host) -> Iterator[Asking]:
    with bertscope.Client(host.target) as client:
        yield Asking(client, client.get_model("bert"), data=Data(limit=LIMIT))


@pytest.mark.slow
@pytest.mark.parametrize("test", [pytest.param(test, id=f"{name}, {test.name}") for name, test in TESTS])
def test_measures_are_finite(asking: Asking, test: ClaimTest) -> None:
    try:
        found = test.function(asking, **test.options)
    except NotAsked as error:
        assert "--" in str(error) or "of the sentences have" in str(error)  # an option is missing, or a rare relation
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


def test_silencing_nothing_changes_nothing(asking: Asking) -> None:
    everything = dict.fromkeys(range(asking.model.layers))
    found = silencing.losses(asking, [{0: [0]}, everything, {1: [1], 0: [0]}])
    assert found.shape == (LIMIT, 4)
    swept = silencing.losses(asking, [{1: [1], 0: [0]}])
    np.testing.assert_allclose(found[:, [0, 3]], swept, atol=1e-5)
    assert np.abs(found[:, 0] - found[:, 2]).min() > 1e-4
    measured = silencing.all_silenced(asking)
    assert measured.value == pytest.approx(found[:, 2].mean(), abs=1e-5)


def test_relations_are_scored_as_in_one_call(asking: Asking) -> None:
    found = relations.linked(asking, "nsubj")
    texts = [relation_text(sentence, subtypes=False) for sentence in bank_of(asking).test]
    whole = asking.client.score_relations(texts, ["nsubj"], model="bert")["nsubj"]
    pairs = np.array([score.pairs for score in found.scores])
    assert pairs.sum() == whole.pairs
    for way, direction in enumerate(("forward", "backward")):
        np.testing.assert_allclose(np.average(found.heads[:, way], axis=0, weights=pairs), whole.accuracy(direction))
    assert np.average(found.offsets.max(1), weights=pairs) >= whole.offset_accuracy
    picture = relations.heads_of_relations(asking).picture
    assert isinstance(picture, Grid)
    row = dict(zip(picture.rows, picture.values, strict=True))[f"nsubj ({pairs.sum()})"]
    scored = relations.head_beside_offset(asking, relation="nsubj"), relations.largest_weight(asking, relation="nsubj")
    assert row[:3] == pytest.approx([scored[0].value, scored[0].control, scored[1].value], rel=1e-5)


def test_features_are_scored_as_in_one_call(asking: Asking) -> None:
    texts = [feature_text(sentence) for sentence in bank_of(asking).test]
    whole = asking.client.score_features(texts, model="bert")
    for found, sums in (
        (features.special_beside_features(asking), {name: whole.attention(name).mean(1) for name in whole.features}),
        (
            features.special_beside_features(asking, first_row=True),
            {name: whole.from_first_special(name)[-1] for name in whole.features},
        ),
    ):
        assert isinstance(found.picture, Grid)
        assert set(found.picture.rows) == set(sums)
        for name, row in zip(found.picture.rows, found.picture.values, strict=True):
            np.testing.assert_allclose(row, sums[name], rtol=1e-5)


def test_a_copy_that_is_the_model_has_not_changed(asking: Asking) -> None:
    copy = asking.client.get_model("headless")  # the same encoder without its head
    same = Asking(asking.client, asking.model, data=asking.data, fine_tuned=copy)
    with pytest.raises(NotAsked, match="attends as the model does"):
        features.change_of_last_layers(same, layers=1)
    own, tuned = (features.special_beside_features(same, tuned=tuned) for tuned in (False, True))
    assert (own.value, own.control, own.picture) == (tuned.value, tuned.control, tuned.picture)
    assert set(re.findall(r"\((.*?)\)", tuned.notes[1])) == {"0.000"}
    with pytest.raises(NotAsked, match="none is below"):
        features.change_of_last_layers(same, layers=asking.model.layers)


def test_pruning_a_layer_is_a_change_there(asking: Asking) -> None:
    last = asking.model.layers - 1
    changed = asking.client.prune_heads("pruned-last", {last: [0]}, model=asking.model)
    try:
        tuned = Asking(asking.client, asking.model, data=asking.data, fine_tuned=changed)
        cosine, rows = (features.change_of_last_layers(tuned, layers=1, by=by) for by in ("cosine", "divergence"))
    finally:
        asking.client.unload_model(changed)
    for found in (cosine, rows):
        assert found.value == pytest.approx(1, abs=1e-3)
        assert f"the head that changes most, on these texts: {last}:0" in found.notes[0]


def test_a_compressed_copy_is_unloaded(asking: Asking) -> None:
    before = [model.name for model in asking.client.list_models()]
    found = sizes.int8(asking)
    assert [model.name for model in asking.client.list_models()] == before
    assert found.value != found.control
    assert "of the bytes of the model's" in found.notes[0]


def test_the_larger_model_is_beside_the_smaller(asking: Asking) -> None:
    larger = asking.client.get_model("roberta")
    with pytest.raises(NotAsked, match="as large"):
        pointing.larger_beside_smaller(Asking(asking.client, asking.model, against=asking.model), kind="agreement")
    found = pointing.larger_beside_smaller(
        Asking(asking.client, asking.model, data=Data(limit=LIMIT), against=larger), kind="agreement"
    )
    small, large = sorted((asking.model.parameters, larger.parameters))
    assert found.notes == (f"{large:,} parameters beside {small:,}",)


def test_roles_are_those_of_the_paper_selection(asking: Asking) -> None:
    for score in relations.linked(Asking(asking.client, asking.model, data=Data(limit=30)), "role").scores:
        assert min(map(abs, score.offsets)) >= relations.LEAST_DISTANCE
