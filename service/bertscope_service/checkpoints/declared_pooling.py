"""Reads the pooling that a folder of sentence-transformers declares: how it makes one vector of a text.

modules.json lists the steps (transformer, pooling, perhaps normalisation), 1_Pooling/config.json the modes of the pooling;
config_sentence_transformers.json has a prompt, sentence_bert_config.json the longest text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from bertscope_service.checkpoints.files import MAX_SETTINGS_BYTES, MODULES, POOLING_CONFIG, PROMPTS, READING
from bertscope_service.encoders.refusals import shown

LIBRARY = "sentence_transformers."
"""Prefix of the modules whose meaning is known; others are code of the checkpoint."""

MAX_PROMPT_CHARACTERS = 10_000


class Mode(Enum):
    """A mode of pooling, in the order in which several are joined, by the name of its key in config.json."""

    CLS = "pooling_mode_cls_token"
    MAX = "pooling_mode_max_tokens"
    MEAN = "pooling_mode_mean_tokens"
    MEAN_SQRT_LEN = "pooling_mode_mean_sqrt_len_tokens"
    WEIGHTED_MEAN = "pooling_mode_weightedmean_tokens"
    LAST_TOKEN = "pooling_mode_lasttoken"


NAMES = {
    "cls": Mode.CLS,
    "max": Mode.MAX,
    "mean": Mode.MEAN,
    "mean_sqrt_len_tokens": Mode.MEAN_SQRT_LEN,
    "weightedmean": Mode.WEIGHTED_MEAN,
    "lasttoken": Mode.LAST_TOKEN,
}
"""Modes by their names in `pooling_mode`, which later versions write instead of a key for each."""


@dataclass(frozen=True, slots=True)
class DeclaredPooling:
    """The way from a text to one vector: `prompt` before the text, the vectors of all `modes` after one another, divided by
    its length if `normalised`. Without `pools_prompt` the prompt's tokens, and the special one before them, are left out of
    means and maxima. `longest`: the most tokens of a text, None without a limit."""

    modes: tuple[Mode, ...]
    normalised: bool = False
    prompt: str = ""
    pools_prompt: bool = True
    longest: int | None = None


@dataclass(frozen=True, slots=True)
class UnusableDeclaration:
    """A declaration that can't be followed; `problem` names the file and the part, to continue "it can't be used:"."""

    problem: str


class _UnusableError(Exception):
    """Carries a problem; no caller sees it."""


def read_declared_pooling(folder: Path) -> DeclaredPooling | UnusableDeclaration | None:
    """Returns what a model's folder declares, None if it has no modules.json. A model with a broken declaration can be used for
    all else, so that it is no error here."""
    if not (folder / MODULES).is_file():
        return None
    try:
        return _read(folder)
    except _UnusableError as error:
        return UnusableDeclaration(str(error))


def _read(folder: Path) -> DeclaredPooling:
    place, normalised = _check_modules(_load(folder, MODULES))
    pooling = _object(folder, place)
    reading, prompts = (_object(folder, name) if (folder / name).exists() else {} for name in (READING, PROMPTS))
    if reading.get("do_lower_case"):
        raise _UnusableError(f"{READING} sets do_lower_case; set it in the tokenizer")
    longest = reading.get("max_seq_length")
    if longest is not None and (type(longest) is not int or longest < 3):
        raise _UnusableError(f"{READING}: max_seq_length is {shown(longest)}; allowed are null and whole numbers from 3")
    return DeclaredPooling(
        modes=_modes(place, pooling),
        normalised=normalised,
        prompt=_prompt(prompts),
        pools_prompt=bool(pooling.get("include_prompt", True)),
        longest=longest,
    )


def _load(folder: Path, name: str) -> Any:
    path = folder / name
    try:
        if not path.is_file():
            raise _UnusableError(f"it has no file {name}")
        if path.stat().st_size > MAX_SETTINGS_BYTES:
            raise _UnusableError(f"{name} is larger than {MAX_SETTINGS_BYTES} bytes")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise _UnusableError(f"{name} can't be read as JSON") from error


def _object(folder: Path, name: str) -> dict[str, Any]:
    found = _load(folder, name)
    if not isinstance(found, dict):
        raise _UnusableError(f"{name} is no JSON object")
    return found


def _check_modules(modules: Any) -> tuple[str, bool]:
    """Returns the path of the pooling's settings, and whether a normalisation follows."""
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise _UnusableError(f"{MODULES} is no list of modules")
    kinds = [_kind(module.get("type")) for module in modules]
    if kinds[:2] != ["Transformer", "Pooling"]:
        raise _UnusableError(f"{MODULES} must begin with a Transformer and a Pooling")
    other = next((module for module, kind in zip(modules[2:], kinds[2:], strict=True) if kind != "Normalize"), None)
    if other is not None:
        name = shown(other.get("type"))
        raise _UnusableError(f"{MODULES} names {name}; known are a Transformer, a Pooling and a Normalize")
    if modules[0].get("path"):
        raise _UnusableError(f"{MODULES} has the Transformer in another folder; put its files beside {MODULES}")
    place = f"{modules[1].get('path')}/config.json"
    if not fnmatch(place, POOLING_CONFIG) or place.count("/") != 1 or place.startswith("."):
        raise _UnusableError(
            f"{MODULES}: the path of the Pooling is {shown(modules[1].get('path'))}; it must be like 1_Pooling"
        )
    return place, len(modules) > 2


def _kind(written: Any) -> str:
    """Returns the name of a module of the library, whose packages have changed; "" for another one."""
    return written.rpartition(".")[2] if isinstance(written, str) and written.startswith(LIBRARY) else ""


def _modes(place: str, pooling: dict[str, Any]) -> tuple[Mode, ...]:
    written = pooling.get("pooling_mode")
    if written is not None:
        names = written if isinstance(written, list) else [written]
        strange = next((name for name in names if not isinstance(name, str) or name not in NAMES), None)
        if strange is not None or not names:
            raise _UnusableError(f"{place}: pooling_mode is {shown(written)}; known are {', '.join(NAMES)}")
        chosen = {NAMES[name] for name in names}
    else:
        known = {mode.value: mode for mode in Mode}
        named = {key for key, value in pooling.items() if key.startswith("pooling_mode_") and value}
        if strange_keys := sorted(named - known.keys()):
            raise _UnusableError(f"{place} sets {shown(strange_keys[0])}; known are {', '.join(known)}")
        chosen = {known[key] for key in named}
        if pooling.get(Mode.MEAN.value) is None:
            chosen.add(Mode.MEAN)  # as the library has it
    if not chosen:
        raise _UnusableError(f"{place} sets no mode of pooling")
    return tuple(mode for mode in Mode if mode in chosen)


def _prompt(prompts: dict[str, Any]) -> str:
    """Returns the default prompt, "" without one."""
    name = prompts.get("default_prompt_name")
    if name is None:
        return ""
    named = prompts.get("prompts")
    prompt = named.get(name) if isinstance(named, dict) and isinstance(name, str) else None
    if not isinstance(prompt, str) or len(prompt) > MAX_PROMPT_CHARACTERS:
        raise _UnusableError(
            f"{PROMPTS}: default_prompt_name must name a text of prompts of up to {MAX_PROMPT_CHARACTERS} characters"
        )
    return prompt
