"""Refuses models whose JSON files direct transformers to files in other than the usual places.

transformers opens the files that some keys name, wherever they are: as a vocabulary, whose entries callers can see, or as
weights that are not part of the digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertscope_service.encoders.refusals import unreadable
from bertscope_service.errors import FailedPrecondition

CONFIG_KEYS = ("configuration_files", "transformers_weights")
"""Keys of a config.json that name another config, or other weights than model.safetensors."""

TOKENIZER_KEYS = ("fast_tokenizer_files", "gguf_file", "init_inputs", "tokenizer_object")
"""Keys of a tokenizer_config.json that name other files than tokenizer.json, or any arguments. Its keys in `_file` are
ignored."""

VOCABULARY_KEYS = ("vocab", "merges")
"""Keys of the same file that hold the entries or, as a string, the name of a file with them."""

SPECIAL_TOKEN = re.compile(r"\w+_tokens?")
"""Expected keys of a special_tokens_map.json. It passes others on as arguments, too, even those that end in `_file`."""


def check_config(path: Path, config: Mapping[str, Any]) -> None:
    """Raises FailedPrecondition for a key that names files. `path` is that of the config.json."""
    for key in CONFIG_KEYS:
        if config.get(key):
            raise _refused(path, key)


def check_tokenizer(folder: Path) -> None:
    """Raises FailedPrecondition for a key that names files; OSError and ValueError if a file can't be read."""
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
