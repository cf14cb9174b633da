"""Removes pieces of the vocabulary from the tokenizer and from the weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from bertscope_service.checkpoints.steps import Applied, ReduceVocabulary
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.compression.reduced_tokenizer import (
    check_reducible,
    count_pieces,
    describe,
    needed_pieces,
    without_others,
)
from bertscope_service.compression.working_copy import WorkingCopy
from bertscope_service.encoders.torch.building import outline

OTHER_FILES = ("vocab.*", "merges.txt", "*.model", "added_tokens.json")
"""Files of a tokenizer that hold ids or pieces; tokenizer.json holds all of them."""


def reduce_vocabulary(copy: WorkingCopy, step: ReduceVocabulary, report: Callable[[], None]) -> Applied:
    """Keeps only the pieces that some texts need (see `pieces`), in the same order, under new ids.

    `report` is called regularly and may raise to abandon. Raises Unsupported for a kind of vocabulary that can't lose pieces.
    """
    tokenizer = copy.tokenizer()
    written = json.loads(tokenizer.backend.to_str())
    check_reducible(written)
    with tokenizer.naming_errors():
        counts = count_pieces(tokenizer.backend, step.texts, report)
    needed = set(needed_pieces(written, counts, step.min_count))
    if copy.parts.positions_follow_padding:
        # Positions are counted from the padding token's id, which must not change.
        needed |= set(range(copy.config.pad_token_id + 1))
    kept = sorted(needed)
    before = int(copy.config.vocab_size)
    _write_tokenizer(copy.folder, without_others(written, kept), kept)
    config = _renumbered(copy.config, kept)
    wanted = outline(copy.kind, config, copy.model.dtype)
    _select_rows(copy.model, wanted, torch.tensor(kept, dtype=torch.int64, device="cpu"))
    return describe(before, len(kept), len(step.texts))


def check_vocabulary(tokenizer: TextTokenizer) -> None:
    """Raises Unsupported for a tokenizer whose vocabulary can't lose pieces."""
    check_reducible(json.loads(tokenizer.backend.to_str()))


def _write_tokenizer(folder: Path, written: dict[str, Any], kept: Sequence[int]) -> None:
    for path in (path for pattern in OTHER_FILES for path in folder.glob(pattern)):
        path.unlink()
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
    path = folder / "tokenizer_config.json"
    if path.is_file():
        config = json.loads(path.read_text(encoding="utf-8"))
        # tokenizer.json has the ids of added tokens too.
        if config.pop("added_tokens_decoder", None) is not None:
            path.write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _renumbered(config: Any, kept: Sequence[int]) -> Any:
    """Changes and returns the config: its vocabulary's size, and the ids of special tokens (None for a removed one)."""
    numbers = {old: new for new, old in enumerate(kept)}
    config.vocab_size = len(kept)
    for name, value in config.to_dict().items():
        if name.endswith("_token_id") and value is not None:
            setattr(config, name, [numbers.get(one) for one in value] if isinstance(value, list) else numbers.get(value))
    return config


def _select_rows(model: Any, wanted: Any, kept: torch.Tensor) -> None:
    """Keeps only some pieces' rows in all tensors with one for each piece, in place. `wanted` has the shapes of the result."""
    done: dict[int, torch.nn.Parameter] = {}
    for name, parameter in [*model.named_parameters(remove_duplicate=False)]:
        sizes = zip(parameter.shape, wanted.get_parameter(name).shape, strict=True)
        axes = [axis for axis, (now, then) in enumerate(sizes) if now != then]
        if not axes:
            continue
        if id(parameter) not in done:
            (axis,) = axes
            done[id(parameter)] = torch.nn.Parameter(parameter.detach().index_select(axis, kept), requires_grad=False)
        owner, _, own = name.rpartition(".")
        setattr(model.get_submodule(owner), own, done[id(parameter)])
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.out_features, module.in_features = module.weight.shape
        elif isinstance(module, torch.nn.Embedding):
            module.num_embeddings = module.weight.shape[0]
    inputs = model.get_input_embeddings()
    inputs.padding_idx = model.config.pad_token_id if inputs.padding_idx is not None else None
