"""Models that are made by our own code against transformers' own from_pretrained: every bit of every weight and buffer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES as KINDS
from bertscope_service.encoders.torch.checkpoints import Checkpoint, read_checkpoint
from bertscope_service.errors import FailedPrecondition
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from tests.support.edited_files import edit_tensors, say
from tests.support.family import FAMILY, THREE
from tests.support.tiny import write_checkpoint

DTYPES = (torch.float32, torch.float16, torch.bfloat16)
FLOAT32 = ("self.q_bias", "self.v_bias")
"""Biases of DeBERTa, which transformers leaves in float32, so that its own model can't run in half precision."""


def theirs(folder: Path, kind: type[Any], dtype: torch.dtype) -> tuple[PreTrainedModel, set[str]]:
    """What transformers makes of a folder, and what it misses there."""
    model, report = kind.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    return model, set(report["missing_keys"])


def assert_same(found: Checkpoint, model: PreTrainedModel, missing: set[str]) -> None:
    """Names, bits, number formats, ties; but for what is missing, which is random."""
    assert found.missing == missing
    ours, expected = found.model.state_dict(), model.state_dict()
    assert list(ours) == list(expected)
    for name, values in expected.items():
        if not name.endswith(FLOAT32):
            assert ours[name].dtype is values.dtype, name
        assert ours[name].shape == values.shape, name
        if name not in missing:
            assert torch.equal(ours[name], values.to(ours[name].dtype)), name
    buffers, wanted = dict(found.model.named_buffers()), dict(model.named_buffers())
    assert list(buffers) == list(wanted)
    for name, values in wanted.items():
        assert buffers[name].dtype is values.dtype, name
        assert torch.equal(buffers[name], values), name
    assert ties(found.model) == ties(model)
    assert not found.model.training
    assert not any(parameter.requires_grad for parameter in found.model.parameters())
    assert all(torch.isfinite(parameter).all() for parameter in found.model.parameters())
    assert found.model.config.dtype is model.config.dtype


def ties(model: torch.nn.Module) -> set[frozenset[str]]:
    """Names that are one parameter."""
    names: dict[int, set[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), set()).add(name)
    return {frozenset(group) for group in names.values() if len(group) > 1}


@pytest.mark.slow
@pytest.mark.parametrize("architecture", FAMILY)
def test_every_kind_of_model_is_what_transformers_reads(architecture: str, tmp_path: Path) -> None:
    """With its masked-LM head, tied as the config says, with a classifier, and without a head; in every number format."""
    kinds: list[tuple[Head, torch.dtype, dict[str, Any]]] = [
        *((Head.MASKED_LM, dtype, {}) for dtype in (DTYPES if architecture in THREE else DTYPES[1:2])),
        *((Head.MASKED_LM, torch.float32, {"settings": {"tie_word_embeddings": tied}}) for tied in (True, False)),
        (Head.SEQUENCE, torch.float32, {"labels": 3}),
        (Head.MASKED_LM, torch.bfloat16 if architecture == "bert" else torch.float32, {"head": False}),
    ]
    for number, (head, dtype, written) in enumerate(kinds):
        folder = write_checkpoint(architecture, tmp_path / str(number), **written)
        model, missing = theirs(folder, KINDS[architecture].class_of(head), dtype)
        assert bool(missing) == ("head" in written)
        assert_same(read_checkpoint(folder, architecture, dtype), model, missing)


Written = Callable[[dict[str, torch.Tensor], PreTrainedModel], dict[str, torch.Tensor]]
OF_BERT: dict[str, Written] = {
    "TensorFlow's names": lambda weights, _: {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): values
        for name, values in weights.items()
    },
    "more than needed": lambda weights, _: (
        weights | {"cls.seq_relationship.weight": torch.ones(2, 32), "bert.pooler.dense.weight": torch.ones(32, 32)}
    ),
    "two values of what is tied": lambda weights, _: weights | {DECODER: weights[WORDS] + 1},
    "only the name that is usually left out": lambda weights, _: (
        {name: values for name, values in weights.items() if name != WORDS} | {DECODER: weights[WORDS]}
    ),
    "several number formats": lambda weights, _: {
        name: values.to((torch.float16, torch.float64, torch.bfloat16)[number % 3])
        for number, (name, values) in enumerate(weights.items())
    },
}
WRITTEN: dict[str, Written] = {
    "without the prefix": lambda weights, model: {
        name.removeprefix(f"{model.base_model_prefix}."): values for name, values in weights.items()
    },
    "with buffers": lambda weights, model: (
        weights | {f"{model.base_model_prefix}.embeddings.position_ids": torch.arange(64)[None]}
    ),
    "tied twice": lambda weights, model: (
        weights | {name: weights[source].clone() for name, source in model.all_tied_weights_keys.items()}
    ),
    "in half precision": lambda weights, _: {name: values.half() for name, values in weights.items()},
}
"""Files of older libraries, whose names the model of today tells."""

WORDS, DECODER = "bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"


@pytest.mark.slow
@pytest.mark.parametrize("architecture", FAMILY)
def test_files_that_are_written_otherwise_are_what_transformers_reads(architecture: str, tmp_path: Path) -> None:
    folder = write_checkpoint(architecture, tmp_path / "model")
    kind, path = KINDS[architecture].class_of(Head.MASKED_LM), folder / "model.safetensors"
    weights, named = load_file(path), kind.from_pretrained(folder)
    for name, written in (WRITTEN | (OF_BERT if architecture == "bert" else {})).items():
        save_file(written(weights, named), path, {"format": "pt"})
        for dtype in DTYPES if name == "several number formats" else DTYPES[:1]:
            model, missing = theirs(folder, kind, dtype)
            assert_same(read_checkpoint(folder, architecture, dtype), model, missing)


def without_classifier(weights: dict[str, torch.Tensor]) -> None:
    for name in [name for name in weights if "classifier" in name]:
        del weights[name]


def test_a_classifier_without_its_head_has_no_labels(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "model", labels=3)
    edit_tensors(folder / "model.safetensors", without_classifier)
    model, missing = theirs(folder, KINDS["bert"].class_of(Head.SEQUENCE), torch.float32)
    found = read_checkpoint(folder, "bert", torch.float32)
    assert_same(found, model, missing)
    assert found.labels == ()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"num_hidden_layers": 10**9}, "many more parts"),
        ({"num_hidden_layers": 9}, "are missing or misshapen, first bert.encoder.layer.4.attention"),
        ({"vocab_size": 2**31}, "misshapen, first bert.embeddings.word_embeddings.weight"),
        ({"max_position_embeddings": 2**40}, "a table of 1099511627776 numbers"),
        ({"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, "quantised by another program"),
    ],
    ids=str,
)
def test_no_memory_is_taken_for_what_only_the_config_says(settings: dict[str, object], said: str, tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "model")
    say(folder / "config.json", **settings)
    with pytest.raises(FailedPrecondition, match=r"can't be|don't fit|are quantised") as caught:
        read_checkpoint(folder, "bert", torch.float32)
    assert said in caught.value.message


def test_a_head_that_only_the_config_describes_is_bounded(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "model", labels=3)
    edit_tensors(folder / "model.safetensors", without_classifier)
    count = 10**5
    say(folder / "config.json", id2label={number: str(number) for number in range(count)}, label2id={})
    with pytest.raises(FailedPrecondition, match="a head of 3300000 numbers, and the weights have none of them"):
        read_checkpoint(folder, "bert", torch.float32)


@pytest.mark.parametrize("cut", [4, 100, -1])
def test_a_file_that_is_cut_short_says_so(cut: int, tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "model")
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(FailedPrecondition, match="copy or download it again"):
        read_checkpoint(folder, "bert", torch.float32)


def test_weights_have_memory_of_their_own(tmp_path: Path) -> None:
    folder = write_checkpoint("bert", tmp_path / "model")
    found = read_checkpoint(folder, "bert", torch.float32)
    before = {name: values.clone() for name, values in found.model.state_dict().items()}
    path = folder / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    assert all(torch.equal(values, before[name]) for name, values in found.model.state_dict().items())
    assert all(values.data_ptr() % 64 == 0 for values in found.model.parameters())
