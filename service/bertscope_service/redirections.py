"""Refuses models whose JSON files send transformers to other files than those that lie where everybody looks for them.

It opens what some keys name, wherever that is: as a vocabulary, whose entries callers get to see, or as weights of which nobody
has taken the digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertscope_service.errors import FailedPrecondition
from bertscope_service.weight_files import unreadable

CONFIG_KEYS = ("configuration_files", "transformers_weights")
"""Of a config.json: another config in its place, other weights than model.safetensors."""

TOKENIZER_KEYS = ("fast_tokenizer_files", "gguf_file", "init_inputs", "tokenizer_object")
"""Of a tokenizer_config.json: other files than tokenizer.json, or any arguments. What it says of keys in `_file` is ignored."""

VOCABULARY_KEYS = ("vocab", "merges")
"""Of the same: the entries themselves; or, if they are a text, the file that has them."""

SPECIAL_TOKEN = re.compile(r"\w+_tokens?")
"""Keys that a special_tokens_map.json is for. It passes on others as arguments, too, even those that end in `_file`."""


def check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Raises FailedPrecondition. `path` is that of the config.json."""
    for key in CONFIG_KEYS:
        if config.get(key):
            raise _refused(path, key)


def check_tokenizer(folder: Path) -> None:
    """Raises FailedPrecondition; OSError and ValueError if a file can't be read."""
    path = folder / "tokenizer_config.json"
    config = _read(path)
    for key in TOKENIZER_KEYS + VOCABULARY_KEYS:
        if config.get(key) and (key in TOKENIZER_KEYS or isinstance(config[key], str)):
            raise _refused(path, key)
    path = folder / "special_tokens_map.json"
    for key in _read(path):
        if not SPECIAL_TOKEN.fullmatch(key):
            raise _refused(path, key)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is not a JSON object")
    return found


def _refused(path: Path, key: str) -> FailedPrecondition:
    message = f"{path} sets {key}, which may name files elsewhere; put them into the folder under their usual names, without it"
    return unreadable(path.parent, message)
