"""The Open Inference Protocol on three architectures, and for models that were compressed."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray
from transformers import AutoModel, AutoModelForMaskedLM

from tests.support.calls import call, models_as_before
from tests.support.family import THREE
from tests.support.harness import Host, LoopThread, launched, refused
from tests.support.tensor_calls import CLOZES, Reference, ask, check_close, outputs_of
from tests.support.tiny import SENTENCES

FILLED = ["token_id", "token", "probability"]


@pytest.fixture(scope="module")
def family(loop: LoopThread, checkpoint: Callable[[str], Path]) -> Iterator[Host]:
    """Hosts each of three architectures under its name."""
    with launched(loop, model=[f"{name}={checkpoint(name)}" for name in THREE]) as running:
        yield running


def fill(host: Host, name: str, texts: tuple[str, ...]) -> list[Any]:
    """FillMask's predictions for each text."""
    return [result.masks[0].predictions for result in call(host, "FillMask", model=f"models/{name}", texts=texts).results]


def check_filled(found: dict[str, NDArray[Any]], expected: list[Any]) -> None:
    assert list(found) == FILLED
    assert found["token"].tolist() == [[one.token for one in row] for row in expected]
    assert found["token_id"].tolist() == [[one.piece_ids[0] for one in row] for row in expected]
    check_close(found["probability"], np.array([[one.probability for one in row] for row in expected]))


@pytest.mark.slow
@pytest.mark.parametrize("name", THREE)
def test_every_architecture_gives_what_transformers_gives(family: Host, checkpoint: Callable[[str], Path], name: str) -> None:
    whole, bare = (Reference(checkpoint(name), kind, SENTENCES[:5]) for kind in (AutoModelForMaskedLM, AutoModel))
    mask = whole.mask
    found = ask(family, whole.inputs, ["logits", "last_hidden_state"], model=name)
    check_close(found["logits"][mask], whole.give("logits")[mask])
    check_close(found["last_hidden_state"][mask], bare.give("last_hidden_state")[mask])
    assert not found["logits"][~mask].any()
    assert not found["last_hidden_state"][~mask].any()


@pytest.fixture
def compress(family: Host) -> Iterator[Callable[..., Any]]:
    """Makes models/small from models/bert by one step."""

    def make(**step: Any) -> Any:
        return call(family, "CompressModel", model="models/bert", model_id="small", steps=[step])[-1].model

    with models_as_before(family):
        yield make


def test_ids_are_those_of_a_reduced_vocabulary(family: Host, compress: Callable[..., Any]) -> None:
    size = compress(vocabulary={"texts": SENTENCES}).vocabulary_size
    assert outputs_of(family, "small")["logits"].shape == [-1, -1, size]
    assert ask(family, {"input_ids": np.array([[size - 1]])}, ["logits"], model="small")["logits"].shape == (1, 1, size)
    with refused(grpc.StatusCode.INVALID_ARGUMENT) as failures:
        ask(family, {"input_ids": np.array([[0, size]])}, model="small")
    assert (failures[0].info.reason, failures[0].fields) == ("ID_OUT_OF_RANGE", ["input_ids[0, 1]"])
    check_filled(ask(family, {"text": CLOZES}, FILLED, model="small"), fill(family, "small", CLOZES))


@pytest.mark.slow
def test_models_that_drop_tokens_fill_masks_and_give_nothing_for_each_token(
    family: Host, checkpoint: Callable[[str], Path], compress: Callable[..., Any]
) -> None:
    compress(tokens={"kept_shares": [1.0, 0.7, 0.5, 0.5]})
    assert set(outputs_of(family, "small")) == set(FILLED)
    inputs = Reference(checkpoint("bert"), texts=CLOZES).inputs
    check_filled(ask(family, inputs, FILLED, model="small"), fill(family, "small", CLOZES))
    with refused(grpc.StatusCode.UNIMPLEMENTED) as failures:
        ask(family, inputs, ["last_hidden_state"], model="small")
    assert failures[0].info.reason == "NO_OUTPUT"


@pytest.mark.slow
def test_models_of_integers_give_nearly_the_same(
    family: Host, checkpoint: Callable[[str], Path], compress: Callable[..., Any]
) -> None:
    compress(int8={})
    inputs = Reference(checkpoint("bert")).inputs
    found, expected = (
        ask(family, inputs, ["last_hidden_state"], model=name)["last_hidden_state"] for name in ("small", "bert")
    )
    assert 0 < np.abs(found - expected).max() < 0.2 * np.abs(expected).max()
