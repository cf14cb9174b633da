"""What a pruned folder holds, whatever it was made from; and that a failure leaves nothing behind."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.errors import FailedPrecondition, Unsupported
from safetensors.torch import load_file, save_file

from tests.support.pruned import load, prune
from tests.support.tiny import write_checkpoint


@pytest.fixture
def copy(bert: Path, tmp_path: Path) -> Path:
    """A checkpoint that may be changed."""
    return Path(shutil.copytree(bert, tmp_path / "copy"))


def edit_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def edit_weights(folder: Path, edit: Callable[[dict[str, torch.Tensor]], dict[str, torch.Tensor]]) -> None:
    path = folder / "model.safetensors"
    save_file(edit(load_file(path)), path, {"format": "pt"})


def test_the_folder_has_all_that_loading_takes(bert: Path, tmp_path: Path) -> None:
    whole = {path.name: path.read_bytes() for path in bert.iterdir()}
    (copy := tmp_path / "copy").mkdir()
    for path in bert.iterdir():
        (copy / path.name).symlink_to(path)  # as the hub's cache keeps them
    for name in ("vocab.txt", "special_tokens_map.json", "README.md"):
        (copy / name).write_text("x")
    found = prune(copy, {1: (2,)}, tmp_path / "new" / "deep" / "pruned")
    names = {path.name for path in found.iterdir()}
    assert names == {path.name for path in bert.iterdir()} | {"vocab.txt", "special_tokens_map.json", "bertscope.json"}
    assert not any(path.is_symlink() for path in found.iterdir())
    assert (found / "tokenizer.json").read_bytes() == (bert / "tokenizer.json").read_bytes()
    assert inspect(found).architecture == "bert"
    assert whole == {path.name: path.read_bytes() for path in bert.iterdir()}
    before, after = (json.loads((folder / "config.json").read_text()) for folder in (bert, found))
    assert after == before | {"bertscope_pruned_heads": {"1": [2]}}


@pytest.mark.parametrize(("dtype", "said"), [(torch.bfloat16, "float32"), (torch.float16, None)])
def test_weights_keep_the_format_they_are_stored_in(copy: Path, tmp_path: Path, dtype: torch.dtype, said: str | None) -> None:
    edit_weights(copy, lambda weights: {name: values.to(dtype) for name, values in weights.items()})
    edit_config(copy, dtype=said)
    found = load_file(prune(copy, {1: (2,)}, tmp_path / "pruned") / "model.safetensors")
    assert {values.dtype for values in found.values()} == {dtype}
    name = "bert.encoder.layer.1.attention.self.query.weight"
    expected = load_file(copy / "model.safetensors")[name].unflatten(0, (4, 8))[[0, 1, 3]].flatten(0, 1)
    assert torch.equal(found[name], expected)


def test_shards_become_one_file(copy: Path, tmp_path: Path) -> None:
    weights = load_file(copy / "model.safetensors")
    parts = {"a.safetensors": sorted(weights)[::2], "b.safetensors": sorted(weights)[1::2]}
    for part, names in parts.items():
        save_file({name: weights[name] for name in names}, copy / part, {"format": "pt"})
    index = {"metadata": {}, "weight_map": {name: part for part, names in parts.items() for name in names}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    whole = prune(copy, {1: (2,)}, tmp_path / "of one file")
    (copy / "model.safetensors").unlink()
    sharded = prune(copy, {1: (2,)}, tmp_path / "of shards")
    assert (sharded / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()


def test_albert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="layers share weights") as caught:
        prune(write_checkpoint("albert", tmp_path / "whole"), {1: (2,)}, tmp_path / "pruned")
    assert caught.value.reason == "PRUNING_UNSUPPORTED"
    assert not (tmp_path / "pruned").exists()


def test_albert_can_not_lack_heads(tmp_path: Path) -> None:
    folder = write_checkpoint("albert", tmp_path / "whole")
    edit_config(folder, bertscope_pruned_heads={"1": [2]})
    with pytest.raises(FailedPrecondition, match="albert models can't be removed"):
        load("albert", folder)
