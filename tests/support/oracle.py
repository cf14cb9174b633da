"""transformers alone, in float64, one text at a time: what contexts, sweeps and gradients are compared with."""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bertscope_service.analyses.ablation import Mode
from bertscope_service.encoders.base import HeadSet
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sequences import TokenSequence
from numpy.typing import NDArray
from transformers import AttentionInterface, AttentionMaskInterface, AutoModelForMaskedLM, AutoModelForSequenceClassification
from transformers.masking_utils import eager_mask

CHANGED = "changed_for_tests"


@dataclass(frozen=True, eq=False)
class Edit:
    """What a head contributes: its map A becomes keep * A + uniform / L, and a constant vector is added to what it reads."""

    keep: float = 0.0
    uniform: float = 0.0
    constant: NDArray[np.float32] | None = None


HeadEdits = Mapping[tuple[int, int], Edit]


def edit(mode: Mode, scale: float = 1.0, mean: NDArray[np.float32] | None = None) -> Edit:
    """A mode as an edit; `mean` is the head's mean context, for MEAN."""
    return {Mode.ZERO: Edit(), Mode.UNIFORM: Edit(uniform=1.0), Mode.SCALE: Edit(keep=scale), Mode.MEAN: Edit(constant=mean)}[
        mode
    ]


def edits_of(heads: HeadSet, mode: Mode, scale: float, means: NDArray[np.float32]) -> dict[tuple[int, int], Edit]:
    """A set of heads changed alike. means: [layers, heads, head_size]."""
    return {(layer, head): edit(mode, scale, means[layer, head]) for layer, numbers in heads for head in numbers}


def gates_of(edits: HeadEdits, layers: int, heads: int, head_size: int) -> Edits:
    """The same edits as the gates of a row."""
    gates = Edits(np.ones((layers, heads), np.float32), np.zeros((layers, heads), np.float32), constant := {})
    for (layer, head), change in edits.items():
        gates.keep[layer, head], gates.uniform[layer, head] = change.keep, change.uniform
        if change.constant is not None:
            constant.setdefault(layer, np.zeros((heads, head_size), np.float32))[head] = change.constant
    return gates


@dataclass
class _Pass:
    """One forward pass. Layers are counted by their calls, since ALBERT's has no number."""

    edits: HeadEdits
    keep: torch.Tensor | None
    layer: int = 0
    contexts: list[torch.Tensor] = field(default_factory=list)
    maps: list[torch.Tensor] = field(default_factory=list)


def _attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    forward: _Pass,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Eager attention of one unpadded row, head by head."""
    scores = query @ key.transpose(2, 3) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    maps = (scores if attention_mask is None else scores + attention_mask).softmax(dim=-1)
    read = []
    for head in range(query.shape[1]):
        change = forward.edits.get((forward.layer, head), Edit(keep=1.0))
        keep = change.keep if forward.keep is None else forward.keep[forward.layer, head]
        edited = keep * maps[:, head] + change.uniform / maps.shape[-1]
        read.append(edited @ value[:, head])
        if change.constant is not None:
            read[-1] = read[-1] + torch.from_numpy(change.constant).to(read[-1])
    forward.maps.append(maps[0])
    forward.contexts.append((maps @ value)[0])
    forward.layer += 1
    return torch.stack(read, dim=2), None


AttentionInterface.register(CHANGED, _attention)
AttentionMaskInterface.register(CHANGED, eager_mask)


class Oracle:
    """A checkpoint as transformers runs it, with heads changed."""

    def __init__(self, folder: Path, *, classifies: bool = False) -> None:
        kind = AutoModelForSequenceClassification if classifies else AutoModelForMaskedLM
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
        self.model.requires_grad_(False)
        self.model.set_attn_implementation(CHANGED)
        self.takes_segments = "token_type_ids" in inspect.signature(self.model.forward).parameters

    def scores(
        self, sequence: TokenSequence, edits: HeadEdits | None = None, *, keep: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Scores of one text: [length, vocabulary] or [labels]. `keep`: [layers, heads] instead of that of the edits."""
        return self._run(sequence, _Pass(edits or {}, keep))

    def maps(self, sequence: TokenSequence, edits: HeadEdits | None = None) -> NDArray[np.float64]:
        """The maps of every head before its own edit, [layers, heads, length, length]."""
        self._run(sequence, forward := _Pass(edits or {}, None))
        found: NDArray[np.float64] = torch.stack(forward.maps).numpy()
        return found

    def contexts(self, sequence: TokenSequence) -> torch.Tensor:
        """A V of every head, [layers, heads, length, head_size]."""
        self._run(sequence, forward := _Pass({}, None))
        return torch.stack(forward.contexts)

    def mean_contexts(self, sequences: Sequence[TokenSequence]) -> NDArray[np.float32]:
        """[layers, heads, head_size]: over all tokens of all texts."""
        return (
            np.concatenate([self.contexts(sequence).numpy() for sequence in sequences], axis=2).mean(axis=2).astype(np.float32)
        )

    def _run(self, sequence: TokenSequence, forward: _Pass) -> torch.Tensor:
        inputs = {
            "input_ids": torch.tensor([sequence.ids]),
            "attention_mask": torch.ones((1, len(sequence)), dtype=torch.int64),
        }
        if self.takes_segments:
            inputs["token_type_ids"] = torch.tensor([sequence.segments])
        with torch.set_grad_enabled(forward.keep is not None and forward.keep.requires_grad):
            scores: torch.Tensor = self.model(**inputs, forward=forward).logits[0]
        return scores
