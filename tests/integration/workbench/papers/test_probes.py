"""Measures of probes, trees and vectors in context on a tiny random model: finite numbers, independent checks, refusals."""

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import bertscope
import numpy as np
import pytest
import torch
from bertscope import InvalidArgument
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data
from bertscope_workbench.papers.items.senses import sense_uses
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.measures import contexts, layers, probing, trees
from bertscope_workbench.papers.pictures_data import Curves
from bertscope_workbench.papers.run import Compared, run_claims
from transformers import AutoModel, AutoTokenizer

from tests.support.generated_sentences import written
from tests.support.harness import Host
from tests.support.treebank_sentence import SENTENCE

MODULES = ("probing.", "trees.", "contexts.", "layers.")
TESTS = [(claim.name, test) for claim in read_claims() for test in claim.tests if test.measure.startswith(MODULES)]


@pytest.fixture(scope="module")
def asking(host: Host) -> Iterator[Asking]:
    with bertscope.Client(host.target) as client:
        yield Asking(client, client.get_model("bert"), data=Data(limit=64))


@pytest.mark.slow
@pytest.mark.parametrize("test", [pytest.param(test, id=f"{name}, {test.name}") for name, test in TESTS])
def test_measures_are_finite(asking: Asking, test: ClaimTest) -> None:
    try:
        found = test.function(asking, **test.options)
    except (NotAsked, InvalidArgument) as error:
        known = ("--fine-tuned", "the model reads 64", "hardly any word")  # as the engine shows it: not asked
        assert any(each in str(error) for each in known)
        return
    assert math.isfinite(found.value)
    assert math.isfinite(found.difference)
    assert found.low <= found.difference <= found.high or math.isnan(found.low)
    assert found.items > 1


def test_nearest_senses_are_those_of_transformers(asking: Asking, checkpoints: dict[str, Path]) -> None:
    uses, right = contexts._nearest(asking)
    model, tokenizer = AutoModel.from_pretrained(checkpoints["bert"]).eval(), AutoTokenizer.from_pretrained(checkpoints["bert"])
    word = uses[0].word
    own = [use for use in uses if use.word == word]
    vectors = []
    for use in own:
        encoded = tokenizer(use.text, return_tensors="pt", return_offsets_mapping=True)
        places = [place for place, (start, end) in enumerate(encoded.pop("offset_mapping")[0].tolist())
                  if use.start <= start < use.end and start < end]  # fmt: skip
        with torch.no_grad():
            vectors.append(model(**encoded).last_hidden_state[0, places].mean(0))
    states = torch.nn.functional.normalize(torch.stack(vectors), dim=-1)
    cosines = states @ states.T - 9 * torch.eye(len(own))
    expected = [own[int(nearest)].sense == use.sense for use, nearest in zip(own, cosines.argmax(1), strict=True)]
    assert right[-1, : len(own)].tolist() == [float(one) for one in expected]
    assert len(uses) == len(sense_uses())


def test_a_fine_tuned_copy_that_is_the_model_itself_is_the_same(asking: Asking) -> None:
    with_copy = replace(asking, fine_tuned=asking.model)
    found = contexts.changed_by_tuning(with_copy)
    assert found.value == pytest.approx(1)
    assert found.control == pytest.approx(1)


def test_roles_are_not_asked_of_a_treebank_without_them(asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "own.conllu").write_text(written(12), "utf-8")
    other = Asking(asking.client, asking.model, data=Data(tmp_path))
    with pytest.raises(NotAsked, match="leave --data out"):
        probing.readable(other, task="role")
    with pytest.raises(NotAsked, match="too few sentences"):
        probing.between_thirds(other, tasks=["surface"], first="lower", second="upper")


def test_other_languages_than_english_are_asked_about_a_treebank_of_theirs(asking: Asking, tmp_path: Path) -> None:
    claims = read_claims(only=["parts-of-speech-readable", "syntax-best-in-the-middle"])
    korean = Compared(languages=("ko",))
    without = run_claims(asking.client, claims, models=["bert"], compared=korean).models[0].claims
    assert {test.why for claim in without for test in claim.tests} == {
        "the treebank that ships is English, and the language asked is ko: give one by --data"
    }
    (tmp_path / "own.conllu").write_text(written(40), "utf-8")
    (given,) = run_claims(asking.client, claims[:1], models=["bert"], compared=korean, data=Data(tmp_path)).models[0].claims
    assert all(test.measured is not None and test.measured.items > 1 for test in given.tests)


def test_edges_of_a_layer_are_those_of_the_probe(asking: Asking) -> None:
    found = trees.trees_in_states(asking, above="chain")
    probe = trees._structural(asking)
    assert found.value == pytest.approx(probe.layer(probe.best_layer).score, abs=0.5 / probe.part.used_texts)
    assert found.control == pytest.approx(probe.chain_score)


def test_short_sentences_fit_a_model_of_few_places(asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "short.conllu").write_text(written(160, most_words=8), "utf-8")
    other = Asking(asking.client, asking.model, data=Data(tmp_path))
    for found in (contexts.segments_differ(other), trees.trees_in_heads(other)):
        assert found.low <= found.difference <= found.high
        assert found.control is not None
        assert -1 <= found.control <= 1


def test_directions_are_those_of_the_states(asking: Asking) -> None:
    texts = [sentence.text for sentence in bank_of(asking).sentences[: contexts.GROUP]]
    (first, rank, length), *_ = layers._spectra(asking)
    states = asking.client.extract_hidden_states(texts, model=asking.model, unit="word")
    words = np.concatenate([each.states[:, [not token.special for token in each.tokens]] for each in states], axis=1)
    for layer in range(asking.model.layers + 1):
        own = words[layer].astype(np.float64)
        values = np.linalg.svd(own, compute_uv=False)
        assert first[layer] == pytest.approx(values[0] ** 2 / (values**2).sum(), rel=1e-4)
        shares = np.linalg.svd(own - own.mean(0), compute_uv=False)
        shares /= shares.sum()
        assert rank[layer] == pytest.approx(np.exp(-(shares * np.log(shares)).sum()) / len(own), rel=1e-3)
        assert length[layer] == pytest.approx(np.sqrt((own**2).sum(1) / own.shape[1]).mean(), rel=1e-4)


def test_all_dimensions_make_up_the_cosine(asking: Asking) -> None:
    found = contexts.rogue_dimensions(asking, dimensions=asking.model.hidden_size)
    assert (found.value, found.control) == (pytest.approx(1), pytest.approx(1))
    fewer = contexts.rogue_dimensions(asking, dimensions=3)
    assert 0 < fewer.value < 1
    alike = contexts.words_of_a_sentence(asking, beside="other sentences")
    assert alike.control == pytest.approx(contexts.anisotropy_rises(asking).value)


def test_layers_are_as_alike_as_the_server_says(asking: Asking) -> None:
    texts = [sentence.text for sentence in bank_of(asking).test]
    groups = [texts[start : start + contexts.GROUP] for start in range(0, len(texts) - contexts.GROUP + 1, contexts.GROUP)]
    cells = [asking.client.compare_representations(group, model=asking.model, truncate=True).cka() for group in groups]
    found = layers.near_beside_far(asking)
    near = [np.diagonal(each, 1).mean() for each in cells]
    assert (found.value, found.items) == (pytest.approx(np.mean(near)), len(groups))
    assert -1 <= layers.falls_with_distance(asking).value <= 1


def test_the_last_state_predicts_what_the_model_does(asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "own.conllu").write_text((SENTENCE + SENTENCE.replace("sat", "ran")).format(*[""] * 6) * 5, "utf-8")
    own = Asking(asking.client, asking.model, data=Data(tmp_path))
    found = layers.prediction(own, of="last")
    masked = [layers.masked_word(sentence) for sentence in bank_of(own).test]
    assert {each[0] for each in masked if each is not None} == {"The cat [MASK] there."}
    (answer,) = asking.client.fill_mask("The cat [MASK] there.", model=asking.model, top_k=10)
    likeliest = [each.token for each in answer.masks[0].predictions]
    assert found.value == pytest.approx(np.mean([each[1] in likeliest for each in masked if each is not None]))
    divergence = layers.prediction(own, of="divergence").picture
    assert isinstance(divergence, Curves)
    assert divergence.lines["KL(last || layer)"][-1] == 0
