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
from bertscope_workbench.primer.asking import Asking
from bertscope_workbench.primer.claim import ClaimTest, read_claims
from bertscope_workbench.primer.data import Data
from bertscope_workbench.primer.data.senses import sense_uses
from bertscope_workbench.primer.estimates import NotAsked
from bertscope_workbench.primer.measures import contexts, probing, trees
from bertscope_workbench.primer.run import Compared, run_primer
from transformers import AutoModel, AutoTokenizer

from tests.support.generated_sentences import written
from tests.support.harness import Host

MODULES = ("probing.", "trees.", "contexts.")
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
        assert "--fine-tuned" in str(error) or "the model reads 64" in str(error)  # as the engine shows it: not asked
        return
    assert math.isfinite(found.value)
    assert math.isfinite(found.difference)
    assert found.low <= found.difference <= found.high or math.isnan(found.low)
    assert found.items > 1


def test_answers_of_probes_add_up_to_their_accuracy(asking: Asking) -> None:
    of = probing.probed(asking, "upos")
    assert of.right.mean(1) == pytest.approx([one.accuracy for one in of.found.layers])
    measured = probing.readable(asking, task="upos", above="majority")
    by_sentence = [of.right[of.best, [text == one for one in of.sentences]].mean() for text in dict.fromkeys(of.sentences)]
    assert measured.value == pytest.approx(np.mean(by_sentence))
    assert measured.control == pytest.approx(of.found.part.majority)


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
    without = run_primer(asking.client, claims, models=["bert"], compared=korean).models[0].claims
    assert {test.why for claim in without for test in claim.tests} == {
        "the treebank that ships is English, and the language asked is ko: give one by --data"
    }
    (tmp_path / "own.conllu").write_text(written(40), "utf-8")
    (given,) = run_primer(asking.client, claims[:1], models=["bert"], compared=korean, data=Data(tmp_path)).models[0].claims
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
