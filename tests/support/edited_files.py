"""Files of a checkpoint that are edited where they are."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file


def say(path: Path, **values: Any) -> None:
    """Gives a JSON file other values under these names."""
    edit(path, lambda content: content.update(values))


def edit(path: Path, change: Callable[[Any], Any]) -> None:
    """Change a JSON file; `change` may give another content."""
    content = json.loads(path.read_text(encoding="utf-8"))
    changed = change(content)
    path.write_text(json.dumps(content if changed is None else changed), encoding="utf-8")


def edit_bytes(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def edit_tensors(path: Path, change: Callable[[dict[str, torch.Tensor]], object]) -> None:
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


def edit_header(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a file of weights says of the tensors behind its header."""
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    change(header)
    written = json.dumps(header).encode()
    path.write_bytes(len(written).to_bytes(8, "little") + written + content[8 + length :])
