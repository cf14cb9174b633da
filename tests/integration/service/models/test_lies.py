"""Lies that a checkpoint tells once it is hosted: a typed error that says what is wrong, by every way that reads it once more.

All lies are told in tests/integration/service/checkpoints/test_lies.py, to what LoadModel reads a checkpoint with.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest
from bertscope.v1 import ablation_pb2, cloze_pb2, common_pb2, compression_pb2, model_pb2
from bertscope_service.errors import FailedPrecondition
from bertscope_service.models import loading, runtimes

from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched, refused
from tests.support.lies import FEW, Lie

GOOD = cloze_pb2.FillMaskRequest(model="models/bert", texts=["The [MASK] sat."])
LATER = [lie for lie in FEW if not lie.in_weights][::4]
"""Some of what may change while a model is hosted: of its weights the server knows the digest."""


@pytest.fixture(scope="module")
def court(loop: LoopThread, checkpoints: dict[str, Path]) -> Iterator[Host]:
    """Hosts models/bert, and what tests load."""
    with launched(loop, model=[f"bert={checkpoints['bert']}"]) as running:
        yield running
        assert running.cloze.FillMask(GOOD, timeout=CALL_SECONDS).results
        names = [model.name for model in running.models.ListModels(model_pb2.ListModelsRequest()).models]
        assert names == ["models/bert"]


@pytest.fixture
def copy(checkpoint: Callable[[str], Path], tmp_path: Path) -> Callable[[Lie], Path]:
    """A good folder that a lie is for."""

    def made(lie: Lie) -> Path:
        return Path(shutil.copytree(checkpoint(lie.architecture), tmp_path / "lying"))

    return made


def load(host: Host, folder: Path) -> None:
    request = model_pb2.LoadModelRequest(model_id="lying", source=str(folder))
    list(host.models.LoadModel(request, timeout=CALL_SECONDS))


@pytest.mark.slow
@pytest.mark.parametrize("lie", LATER, ids=lambda lie: lie.name)
def test_what_a_hosted_model_is_made_into(court: Host, copy: Callable[[Lie], Path], lie: Lie) -> None:
    """CompressModel and PruneHeads read the checkpoint once more, and RankHeads does where ONNX Runtime runs the model."""
    folder = copy(lie)
    load(court, folder)
    try:
        source = loading.locate(str(folder), "", lambda _: None)
        digest = source.digest(lambda _: None)
        lie.tell(folder)
        step = compression_pb2.CompressionStep(half=compression_pb2.HalfPrecision(precision=common_pb2.PRECISION_BFLOAT16))
        compress = model_pb2.CompressModelRequest(model="models/lying", model_id="made", steps=[step])
        with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
            list(court.models.CompressModel(compress, timeout=CALL_SECONDS))
        assert all(word in failures[0].message for word in lie.words)
        if lie.architecture != "albert":
            heads = [common_pb2.LayerHeads(layer=0, heads=[0])]
            prune = ablation_pb2.PruneHeadsRequest(model="models/lying", model_id="made", heads=heads)
            with refused(grpc.StatusCode.FAILED_PRECONDITION) as failures:
                court.ablation.PruneHeads(prune, timeout=CALL_SECONDS)
            assert all(word in failures[0].message for word in lie.words)
        with pytest.raises(FailedPrecondition) as caught:
            runtimes.gradient_encoder(source, digest, runtimes.RuntimeRequest("onnx", "fp32", loading.choose_device("cpu")))
        assert all(word in caught.value.message for word in lie.words)
    finally:
        court.models.UnloadModel(model_pb2.UnloadModelRequest(name="models/lying"), timeout=CALL_SECONDS)
