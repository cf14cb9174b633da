"""Weights in few bits: saved, read again, run, and compared with the model that they were made from."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest
import torch
from bertscope_service.checkpoints.steps import Int8, KeepLayers, Step, WeightOnly
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.encoder import TorchEncoder
from bertscope_service.encoders.torch.int8 import Int8Embedding
from bertscope_service.encoders.torch.quantization import IntegerMatrix, Quantization, decode_weights, read_quantization
from bertscope_service.errors import FailedPrecondition, Unsupported
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from tests.support.compressed import make
from tests.support.edited_files import edit_tensors
from tests.support.family import THREE
from tests.support.pruned import load, prune, run
from tests.support.tiny import ARCHITECTURES, SENTENCES, write_checkpoint

STEPS: dict[str, Step] = {"int8": Int8(), "weight_only": WeightOnly(8, 0)}
CLOSE = 0.98
"""Least cosine between the scores of a model and what 8 bits leave of it. Attention is far sharper than a trained model's."""


@dataclass
class Made:
    """A checkpoint, and the same in few bits."""

    architecture: str
    kind: str
    whole: Path
    folder: Path

    @cached_property
    def batch(self) -> list[TokenSequence]:
        tokenizer = TextTokenizer.load(self.whole, 64)
        return [tokenizer.encode(text, truncate=True).sequence for text in SENTENCES[:5]]

    @cached_property
    def encoder(self) -> TorchEncoder:
        return load(self.architecture, self.folder, pack=True)


KINDS = [
    *((name, 0, "int8") for name in ARCHITECTURES),
    *((name, 3, "int8") for name in ("bert", "modernbert")),
    *((name, 0, "weight_only") for name in THREE),
]


@pytest.fixture(scope="module", params=KINDS, ids=lambda it: "-".join(map(str, it)))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    architecture, labels, kind = request.param
    root = tmp_path_factory.mktemp("quantized")
    whole = write_checkpoint(architecture, root / "whole", labels=labels)
    return Made(architecture, kind, whole, make(whole, root / "made", STEPS[kind]))


def cosine(one: torch.Tensor, other: torch.Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one.flatten().double(), other.flatten().double(), dim=0))


def decoded(made: Made, target: Path) -> TorchEncoder:
    """A plain fp32 checkpoint of the numbers that the stored ones stand for."""
    quantization = read_quantization(AutoConfig.from_pretrained(made.folder))
    assert quantization is not None
    weights, _ = decode_weights(load_file(made.folder / "model.safetensors"), quantization)
    target.mkdir()
    save_file({name: values.contiguous() for name, values in weights.items()}, target / "model.safetensors", {"format": "pt"})
    config = json.loads((made.folder / "config.json").read_text())
    del config["bertscope_quantization"]
    (target / "config.json").write_text(json.dumps(config))
    return load(made.architecture, target, pack=True)


def test_scores_stay_close(made: Made) -> None:
    before, after = run(load(made.architecture, made.whole, pack=True), made.batch), run(made.encoder, made.batch)
    found = [cosine(one[-1], other[-1]) for one, other in zip(after, before, strict=True)]
    assert CLOSE < min(found) < 1 - 1e-9
    assert made.encoder.precision == made.kind
    embeddings = made.encoder.architecture.model.get_input_embeddings()
    assert isinstance(embeddings, Int8Embedding) == (made.kind == "int8")
    assert made.encoder.dtype is torch.float32
    assert not made.encoder.capabilities.prunable
    assert made.encoder.capabilities.differentiable == (made.kind == "weight_only")
    assert made.encoder.shape.parameters == load(made.architecture, made.whole).shape.parameters


def test_it_computes_with_the_stored_numbers(made: Made, tmp_path: Path) -> None:
    """Weights are exactly the decoded ones; with integers, inputs are rounded too."""
    plain, found = run(decoded(made, tmp_path / "plain"), made.batch), run(made.encoder, made.batch)
    for one, other in zip(found, plain, strict=True):
        if made.kind == "weight_only":
            assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
        else:
            assert cosine(one[0], other[0]) > 0.999
            assert cosine(one[-1], other[-1]) > CLOSE


def test_matrices_are_rounded_to_the_nearest() -> None:
    exact = torch.randn(9, 33, generator=torch.Generator().manual_seed(0))
    exact[4] = 0
    matrix = IntegerMatrix.of(exact)
    assert matrix.values.abs().amax(dim=1).tolist() == [127] * 4 + [0] + [127] * 4
    assert bool(((matrix.decode() - exact).abs() <= matrix.scales[:, None] * 0.50001).all())
    torch.testing.assert_close(Int8Embedding(matrix)(torch.tensor([[4, 2]])), matrix.decode()[torch.tensor([[4, 2]])])


@pytest.mark.slow
def test_changed_once_more_it_is_plain_again(bert: Path, tmp_path: Path) -> None:
    first = make(bert, tmp_path / "int8", Int8())
    second = make(first, tmp_path / "layers", KeepLayers((0, 2)))
    encoder = load("bert", second)
    assert (encoder.precision, encoder.shape.layers) == ("fp32", 2)
    assert load("bert", second, precision="int8").precision == "fp32"
    weights = load_file(second / "model.safetensors")
    stored, _ = decode_weights(load_file(first / "model.safetensors"), Quantization("int8"))
    name = "bert.encoder.layer.{}.output.dense.weight"
    assert torch.equal(weights[name.format(1)], stored[name.format(2)])


@pytest.mark.slow
def test_heads_may_be_gone(bert: Path, tmp_path: Path) -> None:
    pruned = prune(bert, {0: (1,), 2: (0, 1, 2, 3)}, tmp_path / "pruned")
    small = make(pruned, tmp_path / "small", Int8())
    batch = [TextTokenizer.load(bert, 64).encode(SENTENCES[1]).sequence]
    assert cosine(run(load("bert", small), batch)[0][-1], run(load("bert", pruned), batch)[0][-1]) > CLOSE


def test_half_precision_is_refused(bert: Path, tmp_path: Path) -> None:
    small = make(bert, tmp_path / "small", Int8())
    with pytest.raises(Unsupported, match="load them in fp32") as refused:
        load("bert", small, precision="bf16")
    assert refused.value.reason == "PRECISION_UNSUPPORTED"


Edit = Callable[[dict[str, torch.Tensor]], object]
DAMAGE: dict[str, Edit] = {
    "no scale": lambda file: file.pop("bert.encoder.layer.0.output.dense.weight_scale"),
    "a short scale": lambda file: file.update({"bert.encoder.layer.0.output.dense.weight_scale": torch.ones(3)}),
    "no matrix": lambda file: file.pop("bert.encoder.layer.0.output.dense.weight"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_broken_files_are_refused(bert: Path, tmp_path: Path, damage: str) -> None:
    small = make(bert, tmp_path / "small", Int8())
    edit_tensors(small / "model.safetensors", DAMAGE[damage])
    with pytest.raises(FailedPrecondition) as refused:
        load("bert", small)
    assert refused.value.reason == "SOURCE_UNREADABLE"
