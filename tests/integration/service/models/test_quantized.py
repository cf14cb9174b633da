"""Models in few bits, and models that drop tokens, through the server: what they say of themselves, do and refuse."""

from collections.abc import Iterator

import grpc
import pytest
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import model_pb2 as model
from bertscope_service.checkpoints.steps import EliminateTokens, Int8, WeightOnly

from tests.support.compressed import make
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.sweeps import MASKED, ZERO, masked_lm, sweep, text_input
from tests.support.tiny import write_checkpoint

UNSUPPORTED, INVALID = grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INVALID_ARGUMENT
HEAD = common.HeadIntervention(layer=1, heads=(0,), mode=ZERO)
TEXT = "Paris is the [MASK] of France."


@pytest.fixture(scope="module")
def small(loop: LoopThread, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    root = tmp_path_factory.mktemp("small")
    whole, labels = write_checkpoint("bert", root / "whole"), write_checkpoint("bert", root / "labels", labels=3)
    tokens = EliminateTokens((0.9, 0.7, 0.5, 0.3))
    models = {
        "whole": whole,
        "integers": make(whole, root / "integers", Int8()),
        "codes": make(whole, root / "codes", WeightOnly(8, 0)),
        "tokens": make(whole, root / "tokens", tokens),
        "labels": make(labels, root / "few", tokens),
    }
    with launched(loop, model=[f"{name}={folder}" for name, folder in models.items()]) as running:
        yield running


def described(small: Host, name: str) -> model.Model:
    found = small.models.ListModels(model.ListModelsRequest(), timeout=CALL_SECONDS).models
    return next(entry for entry in found if entry.name == f"models/{name}")


def fill(small: Host, name: str, text: str = TEXT, **fields: object) -> cloze.FillMaskResponse:
    request = cloze.FillMaskRequest(model=f"models/{name}", texts=(text,), top_k=20, **fields)  # type: ignore[arg-type]
    return small.cloze.FillMask(request, timeout=CALL_SECONDS)


@pytest.mark.parametrize(("name", "precision"), [("integers", common.PRECISION_INT8), ("codes", common.PRECISION_WEIGHT_ONLY)])
def test_few_bits(small: Host, name: str, precision: int) -> None:
    entry, whole = described(small, name), described(small, "whole")
    assert (entry.precision, entry.runtime, entry.parameters) == (precision, common.RUNTIME_TORCH, whole.parameters)
    assert model.CAPABILITY_PRUNING not in entry.capabilities
    assert (model.CAPABILITY_RANKING in entry.capabilities) == (name == "codes")
    reply = fill(small, name, interventions=[HEAD])
    assert reply.provenance.precision == precision
    expected = [one.token for one in fill(small, "whole", interventions=[HEAD]).results[0].masks[0].predictions]
    found = [one.token for one in reply.results[0].masks[0].predictions]
    assert len({*found, *expected}) < 30
    request = attention.ExtractAttentionRequest(model=entry.name, inputs=[text_input("The cat sat.")])
    assert list(small.attention.ExtractAttention(request, timeout=CALL_SECONDS))


def test_a_model_that_drops_tokens_is_not_watched_or_changed(small: Host) -> None:
    calls = {
        "attention": lambda: list(
            small.attention.ExtractAttention(
                attention.ExtractAttentionRequest(model="models/tokens", inputs=[text_input(TEXT)]), timeout=CALL_SECONDS
            )
        ),
        "cloze": lambda: fill(small, "tokens", interventions=[HEAD]),
        "labels": lambda: small.classification.Classify(
            classification.ClassifyRequest(model="models/labels", inputs=[text_input(TEXT)], interventions=[HEAD]),
            timeout=CALL_SECONDS,
        ),
        "sweep": lambda: sweep(small, model="models/tokens", objective=masked_lm(MASKED), mode=ZERO),
    }
    for name, call in calls.items():
        with refused(UNSUPPORTED) as failures:
            call()
        assert failures[0].info.reason == "NOT_OBSERVABLE", name
