"""Finds the files of a checkpoint's weights in a folder. Pickle is rejected, by file name and by first bytes."""

from __future__ import annotations

import json
import re
from pathlib import Path

from bertscope_service.encoders.refusals import unreadable
from bertscope_service.errors import FailedPrecondition

INDEX = "model.safetensors.index.json"
"""Names the shard of each weight."""

PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")

PICKLED = re.compile(rb"PK\x03\x04|\x80[\x02-\x05]")
"""The first bytes of a file of torch.save: a ZIP archive or, before PyTorch 1.6, a pickle of protocol 2 or later."""

MAX_INDEX_BYTES = 16 * 1024 * 1024
"""An index of shards with 100,000 weights is smaller."""

STRAYS = {"shard-?????-model-*.safetensors": "shards of a distributed checkpoint", "adapter_config.json": "an adapter"}
"""Files that transformers would read in place of the weights, or on top of them, and their kinds."""

HEADER_PLACE = 8
"""The offset of the header of safetensors, which begins with a brace; before it is its length, whose bytes may be any."""


def weight_files(folder: Path) -> tuple[Path, ...]:
    """Returns model.safetensors, or the shards that its index names. Raises FailedPrecondition; OSError if they can't be
    read."""
    single, index = folder / "model.safetensors", folder / INDEX
    files: tuple[Path, ...]
    if single.is_file():
        files = (single,)
    elif index.is_file():
        files = _shards(folder, index)
    elif any(path for pattern in PICKLES for path in folder.glob(pattern)):
        message = f"{folder} holds only pickled weights, which can run code; convert them to model.safetensors"
        raise FailedPrecondition(message, "PICKLE_REFUSED", source=folder)
    else:
        raise unreadable(folder, f"{single} does not exist; bertscope reads safetensors only")
    for pattern, what in STRAYS.items():
        if any(folder.glob(pattern)):
            raise unreadable(folder, f"{folder} holds {what} beside its weights; save the model as a whole, in a new folder")
    for path in files:
        _refuse_pickle(path)
    return files


def _shards(folder: Path, index: Path) -> tuple[Path, ...]:
    if index.stat().st_size > MAX_INDEX_BYTES:
        raise unreadable(folder, f"{index} has {index.stat().st_size} bytes; allowed are up to {MAX_INDEX_BYTES}")
    try:
        names = sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise unreadable(folder, f"{index} can't be read: {error!r}") from error
    shards = tuple(folder / name for name in names)
    for shard in shards:
        if shard.parent != folder:
            raise unreadable(folder, f"{index} names {str(shard)!r}, which does not lie beside it")
        if not shard.is_file():
            raise unreadable(folder, f"{shard} is named in {index.name} and does not exist")
    return shards


def _refuse_pickle(path: Path) -> None:
    """Raises FailedPrecondition for a pickled file: nothing here would run it, but its owner should know."""
    with path.open("rb") as file:
        begin = file.read(HEADER_PLACE + 1)
    if PICKLED.match(begin) and begin[HEADER_PLACE:] != b"{":
        message = f"{path} is pickled, which can run code, whatever its name says; convert it to safetensors"
        raise FailedPrecondition(message, "PICKLE_REFUSED", source=path.parent)
