"""Measures by probes and erasers on a tiny random model: finite numbers, controls that are what they say, and refusals."""

import math
from collections.abc import Iterator
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import ClaimTest
from bertscope_workbench.papers.claim_files import read_claims
from bertscope_workbench.papers.estimates import NotAsked
from bertscope_workbench.papers.items import Data, shipped
from bertscope_workbench.papers.items.treebank import by_column, treebank
from bertscope_workbench.papers.measures import erasure, languages, numbers, order, readable

from tests.support.harness import Host

MODULES = ("numbers", "readable", "order", "languages", "erasure")
TREEBANKS = "languages.transfer"
"""Takes treebanks of two languages: it has a test of its own."""
TESTS = [
    (claim.name, test)
    for claim in read_claims()
    for test in claim.tests
    if test.measure.partition(".")[0] in MODULES and test.measure != TREEBANKS
]
LIMIT = 12


@pytest.fixture(scope="module")
def asking(host: Host) -> Iterator[Asking]:
    with bertscope.Client(host.target) as client:
        yield Asking(client, client.get_model("bert"), data=Data(limit=LIMIT), languages=("en", "de", "ko"))


@pytest.mark.slow
@pytest.mark.parametrize("test", [pytest.param(test, id=f"{name}, {test.name}") for name, test in TESTS])
def test_measures_are_finite(asking: Asking, test: ClaimTest) -> None:
    found = test.function(asking, **test.options)
    assert math.isfinite(found.value)
    assert found.low <= found.difference <= found.high or math.isnan(found.low)
    assert found.items > 1
    assert found.picture is not None


def test_numbers_that_a_random_model_has_not_seen_are_not_read(asking: Asking) -> None:
    found = numbers.read_out(asking, kind="values")
    assert (found.value, found.difference) == (pytest.approx(found.difference), pytest.approx(found.value))
    assert found.value < 0.5
    assert "numbers that no other text has" in found.data
    beside = numbers.read_out(asking, kind="values", above_embeddings=True)
    assert beside.difference == pytest.approx(beside.value - (beside.control or 0))


def test_order_is_compared_between_the_layers_that_are_named(asking: Asking) -> None:
    """With R^2 of one call for each layer's own numbers, as `train_regression_probe` gives it."""
    found = order.change(asking, quantity="index", rises=False)
    bank = treebank(asking.data)
    train, dev, test = (order.valued(part) for part in bank.parts(by_column("index")))
    alone = asking.client.train_regression_probe(train, dev=dev, test=test, model=asking.model, layers=[1, 4], truncate=True)
    assert found.value == pytest.approx(alone.layer(1).r_squared, abs=0.02)
    assert found.control == pytest.approx(alone.layer(4).r_squared, abs=0.02)


def test_controls_of_readable_labels(asking: Asking) -> None:
    embeddings = readable.beside(asking, label="roles", control="embeddings")
    chance = readable.beside(asking, label="roles", control="control task")
    assert embeddings.value == chance.value
    assert embeddings.control != chance.control


def test_spelling_and_the_shift(asking: Asking) -> None:
    found = languages.found(asking, centred=True, control="spelling")
    same = Asking(asking.client, asking.model, data=asking.data, languages=("en", "en"))
    with pytest.raises(NotAsked, match="one language"):
        languages.found(same, centred=True, control="spelling")
    first, second = ([line.strip() for line in _file(code)][:LIMIT] for code in ("en", "de"))
    retrieved = workbench.retrieve_sentences(asking.client, first, second, model=asking.model, truncate=True)
    shares = (retrieved.accuracy() + retrieved.accuracy(backward=True)) / 2
    assert found.picture is not None
    np.testing.assert_allclose(found.picture.lines["mean subtracted"], shares, atol=1e-6)


def _file(code: str) -> list[str]:
    return shipped("sentences").joinpath(f"{code}.txt").read_text("utf-8").splitlines()


def test_one_language_is_refused(asking: Asking) -> None:
    alone = Asking(asking.client, asking.model, data=asking.data)
    for measure in (languages.identity, lambda own: languages.found(own, centred=False, control="unshifted")):
        with pytest.raises(NotAsked, match="--language en --language ko"):
            measure(alone)


def test_parts_of_speech_transfer_without_words_that_both_languages_have(asking: Asking, tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("no treebank")
    own = Asking(asking.client, asking.model, data=Data(tmp_path), languages=("en", "de", "ko"))  # the first two
    with pytest.raises(NotAsked, match="en_"):
        languages.transfer(own)
    for code, nouns, verb in (("en", ("dogs", "cats", "cows"), "bark"), ("de", ("Hunde", "Katzen", "cows"), "bellen")):
        lines = []
        for noun in nouns * 4:
            lines += [f"1\t{noun}\t_\tNOUN\t_\t_\t2\tnsubj\t_\t_", f"2\t{verb}\t_\tVERB\t_\t_\t0\troot\t_\t_", ""]
        (tmp_path / f"{code}_own.conllu").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = languages.transfer(own)
    assert found.items == 12
    assert "20 words of 12 sentences" in found.data  # "cows" is in both
    assert found.control == pytest.approx(12 / 20)  # bellen, 12 times


def test_a_treebank_without_roles_is_refused(asking: Asking, tmp_path: Path) -> None:
    rows = ["1\tDogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_", "2\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_", "", ""]
    (tmp_path / "own.conllu").write_text("\n".join(rows), encoding="utf-8")
    other = Asking(asking.client, asking.model, data=Data(tmp_path))
    with pytest.raises(NotAsked, match="roles"):
        readable.beside(other, label="roles", control="embeddings")


def test_erasing_is_beside_a_random_subspace(asking: Asking) -> None:
    found = erasure.loss_without(asking, label="upos")
    assert found.picture is not None
    untouched, random, erased = found.picture.rows.values()
    assert (found.value, found.control) == (pytest.approx(erased, rel=1e-5), pytest.approx(random, rel=1e-5))
    assert untouched != random
