"""What compress writes: several steps at once, the manifest, nothing when it fails."""

import errno
import json
import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.manifest import MANIFEST, read_manifest
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.checkpoints.steps import (
    Criterion,
    EliminateTokens,
    Half,
    Int8,
    KeepLayers,
    OnnxExport,
    PruneMagnitude,
    ReduceVocabulary,
    RemoveFeedForward,
    RemoveHeads,
    Step,
    WeightOnly,
)
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression import compress as compressing
from bertscope_service.compression.compress import compress
from bertscope_service.compression.plan import Subject, plan
from bertscope_service.errors import AlreadyExists, FailedPrecondition, InvalidArgument, Unsupported
from safetensors import SafetensorError

from tests.support.compressed import DIGEST, made
from tests.support.pruned import load, run, weights
from tests.support.tiny import SENTENCES, write_checkpoint

ALL: tuple[Step, ...] = (
    RemoveHeads({1: (2,), 3: (0, 1)}),
    RemoveFeedForward(0.5),
    KeepLayers((0, 3)),
    PruneMagnitude(0.2),
    ReduceVocabulary(SENTENCES[:3]),
    Half("bf16"),
)


@pytest.mark.parametrize("architecture", ["bert", "modernbert"])
def test_steps_at_once_are_steps_one_after_another(architecture: str, tmp_path: Path) -> None:
    folder = write_checkpoint(architecture, tmp_path / "whole")
    at_once = made(folder, tmp_path / "at once", *ALL)
    for number, step in enumerate(ALL):
        folder = made(folder, tmp_path / str(number), step)
    assert weights(folder) == weights(at_once)
    for name in ("config.json", "tokenizer.json", MANIFEST):
        assert (folder / name).read_bytes() == (at_once / name).read_bytes()
    one, other = (load(architecture, path) for path in (folder, at_once))
    assert (one.shape, one.capabilities) == (other.shape, other.capabilities)
    assert one.shape.layers == 2


def sequence_of(folder: Path, text: str) -> Any:
    return TextTokenizer.load(folder, 64).encode(text).sequence


@pytest.mark.slow
@pytest.mark.parametrize("labels", [0, 3])
def test_a_classifier_and_a_model_without_a_head(tmp_path: Path, labels: int) -> None:
    folder = write_checkpoint("bert", tmp_path / "whole", head=False, labels=labels)
    batch = [sequence_of(folder, text) for text in SENTENCES[:3]]
    steps = (RemoveHeads({1: (2,)}), RemoveFeedForward(0.25), PruneMagnitude(0.1), ReduceVocabulary(SENTENCES))
    found = load("bert", made(folder, tmp_path / "made", *steps))
    assert (len(found.shape.labels), found.capabilities.masked_lm) == (labels, False)
    for step in (Int8(), WeightOnly(8, 0)):
        near = load("bert", made(folder, tmp_path / step.name, step))
        assert (len(near.shape.labels), near.capabilities.masked_lm) == (labels, False)
        for one, other in zip(run(near, batch), run(load("bert", folder), batch), strict=True):
            assert torch.nn.functional.cosine_similarity(one[-1].flatten(), other[-1].flatten(), dim=0) > 0.99


def test_the_manifest(bert: Path, tmp_path: Path) -> None:
    """What it says of each step is in api/test_compression.py."""
    found = read_manifest(made(bert, tmp_path / "made", KeepLayers((0, 3)), RemoveFeedForward(0.5), RemoveHeads({1: (2,)})))
    assert found is not None
    assert (found.runtime, found.source_digest) == ("torch", DIGEST)
    assert {"bertscope", "torch", "transformers", "tokenizers", "safetensors"} == found.versions.keys()
    compress(inspect(tmp_path / "made"), (PruneMagnitude(0.5),), tmp_path / "again", lambda _: None, "sha256:of the second")
    later = read_manifest(tmp_path / "again")
    assert later is not None
    assert later.source_digest == DIGEST  # of the first
    assert (later.steps[:3], later.steps[3].step) == (found.steps, "magnitude")
    assert later.steps[3].numbers["zeros"] == pytest.approx(0.5 * later.steps[3].numbers["weights"], abs=20)


def made_under(umask: int, folder: Path, target: Path, *steps: Step) -> Path:
    """A checkpoint after some steps, which the umask lets people read and nobody else."""
    before = os.umask(umask)
    try:
        made(folder, target, *steps)
    finally:
        os.umask(before)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (target, *target.iterdir())}
    assert len(modes) > 4
    assert modes == {path: (0o777 if path == target else 0o666) & ~umask for path in modes}
    return target


@pytest.mark.parametrize(("step", "umask"), [(Half("bf16"), 0o022), (Int8(), 0o077)], ids=["half", "int8"])
def test_who_the_umask_lets_may_read_what_is_written(bert: Path, tmp_path: Path, step: Step, umask: int) -> None:
    """Of graphs too: see `test_export_after_other_steps`."""
    made_under(umask, bert, tmp_path / "made", step)


FULL: dict[str, Exception] = {
    "no space": OSError(errno.ENOSPC, "No space left on device"),
    "quota": OSError(errno.EDQUOT, "Disk quota exceeded"),
    "safetensors": SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "steps", "owner", "name"),
    [
        *((error, (KeepLayers((0,)),), compressing.WorkingCopy, "save") for error in FULL.values()),
        (FULL["no space"], (KeepLayers((0,)),), shutil, "copyfile"),
        (FULL["no space"], (Int8(),), compressing.WorkingCopy, "save_as"),
        (FULL["no space"], (Half("bf16"),), compressing, "write_manifest"),
    ],
    ids=[*FULL, "tokenizer", "integers", "manifest"],
)
def test_a_full_disk_leaves_nothing(
    bert: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    steps: tuple[Step, ...],
    owner: Any,
    name: str,
) -> None:
    monkeypatch.setattr(owner, name, raising(error))
    with pytest.raises(FailedPrecondition, match="is full; make room") as caught:
        made(bert, tmp_path / "new" / "made", *steps)
    assert caught.value.reason == "DISK_FULL"
    assert not list(tmp_path.iterdir())


def raising(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_a_folder_that_somebody_makes_in_the_last_moment(bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target, replace = tmp_path / "made", Path.replace

    def late(draft: Path, folder: Path) -> Path:
        folder.mkdir()
        (folder / "theirs").touch()
        return replace(draft, folder)

    monkeypatch.setattr(Path, "replace", late)
    with pytest.raises(AlreadyExists) as caught:
        made(bert, target, KeepLayers((0,)))
    assert caught.value.reason == "FOLDER_NOT_EMPTY"
    assert [path.name for path in tmp_path.rglob("*")] == ["made", "theirs"]


@pytest.mark.slow
def test_export_after_other_steps(bert: Path, tmp_path: Path) -> None:
    """Graphs, tokenizer and config of the changed model, no checkpoint beside them, and a umask other than the exporter's."""
    target = made_under(0o027, bert, tmp_path / "made", OnnxExport(), ReduceVocabulary(SENTENCES[:2]), KeepLayers((3,)))
    found = read_manifest(target)
    assert found is not None
    assert found.runtime == "onnx"
    assert [step.step for step in found.steps] == ["vocabulary", "layers", "onnx"]
    assert found.details["shape"]["layers"] == 1
    assert "onnx" in found.versions
    config = json.loads((target / "config.json").read_text())
    assert (config["num_hidden_layers"], config["vocab_size"]) == (1, found.details["shape"]["vocabulary_size"])
    assert not any(path.is_dir() or path.suffix == ".safetensors" for path in target.iterdir())
    assert len(json.loads((target / "tokenizer.json").read_text())["model"]["vocab"]) == config["vocab_size"]


FORMATS: tuple[Step, ...] = (Half("fp16"), Half("bf16"), Int8())


def drawn(rng: random.Random, layers: int) -> tuple[Step, ...]:
    """A few steps in any order, often some that don't go together or that the model can't take."""
    units, bits = rng.choice([0.01, 0.3, 0.99]), rng.choice([2, 3, 8])
    shares = sorted((rng.choice([1.0, 0.9, 0.5, 0.01]) for _ in range(rng.choice([layers, 2]))), reverse=True)
    pool: list[Step] = [
        KeepLayers(tuple(sorted(rng.sample(range(layers), rng.randint(1, layers))))),
        RemoveHeads({layer: tuple(rng.sample(range(4), rng.randint(1, 4))) for layer in rng.sample(range(layers), 2)}),
        RemoveFeedForward(units) if rng.random() < 0.5 else RemoveFeedForward(units, Criterion.IMPORTANCE, SENTENCES[:3]),
        PruneMagnitude(rng.choice([0.1, 0.99])),
        EliminateTokens(tuple(shares)),
        ReduceVocabulary(tuple(rng.sample(SENTENCES, 2)), rng.choice([1, 3])),
        rng.choice((*FORMATS, WeightOnly(bits, 0))),
    ]
    return tuple(rng.sample(pool, rng.randint(1, 4)))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ["albert", "bert", "modernbert"])
def test_any_steps_make_a_model_that_answers_or_are_refused_at_once(architecture: str, tmp_path: Path) -> None:
    whole = write_checkpoint(architecture, tmp_path / "whole")
    encoder, rng, made_models = load(architecture, whole), random.Random(architecture), 0
    subject = Subject("models/whole", encoder.shape, encoder.capabilities, "cpu", has_mask=True)
    for number in range(8):
        steps = drawn(rng, subject.shape.layers)
        try:
            plan(steps, subject)
        except (InvalidArgument, Unsupported):
            continue
        target = made(whole, tmp_path / str(number), *steps)
        precision = next((step.precision for step in steps if isinstance(step, Half)), "fp32")
        encoder, tokenizer = load(architecture, target, precision=precision, pack=True), TextTokenizer.load(target, 64)
        batch = [tokenizer.encode(text, truncate=True).sequence for text in (SENTENCES[3], "", SENTENCES[1])]
        with torch.inference_mode():
            state = encoder.begin(batch)
            encoder.advance(state, encoder.shape.layers, only=torch.tensor([[0]] * 3))
            scores = encoder.logits(state, torch.arange(3), torch.zeros(3, dtype=torch.int64))
        assert scores.shape == (
            3,
            tokenizer.size if "vocabulary" in {step.name for step in steps} else subject.shape.vocabulary_size,
        )
        assert torch.isfinite(scores).all(), steps
        made_models += 1
    assert made_models >= 2
