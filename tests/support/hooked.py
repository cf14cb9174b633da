"""transformers alone, with plain hooks on its own modules, one text at a time in float64: what sweeps over sites are compared
with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

STATE, HEADS, ATTENTION, NEURONS, FEED_FORWARD = range(1, 6)
"""Sites by the numbers of bertscope.v1.Site."""

QUERY, KEY, VALUE = range(7, 10)
"""What the heads of a layer read, side by side."""

Place = tuple[int, int]
"""A site and its layer."""

Change = Callable[[torch.Tensor], torch.Tensor]
"""What becomes of the vectors of a site, [tokens, size]."""

Changes = Mapping[Place, Change]

PATHS = {
    "bert": ("bert.encoder.layer", "attention.output.dense", "output.dense", None),
    "albert": ("albert.encoder.albert_layer_groups.0.albert_layers", "attention.dense", "ffn_output", None),
    "distilbert": ("distilbert.transformer.layer", "attention.out_lin", "ffn.lin2", None),
    "modernbert": ("model.layers", "attn.Wo", "mlp.Wo", "model.final_norm"),
    "deberta": ("deberta.encoder.layer", "attention.output.dense", "output.dense", None),
}
"""By architecture: its layers, and in a layer what reads the heads and what reads the neurons; what ends the last layer."""

INPUTS = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "albert": ("attention.query", "attention.key", "attention.value"),
    "distilbert": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
}
"""The projections of a layer, of architectures whose paths are followed."""


@dataclass
class _Pass:
    changes: Changes
    layer: int = -1
    vectors: dict[Place, torch.Tensor] = field(default_factory=dict)

    def at(self, place: Place, vectors: torch.Tensor) -> torch.Tensor:
        """The vectors [1, tokens, size] of a place after its change, which are kept."""
        changed = self.changes[place](vectors[0].clone())[None] if place in self.changes else vectors
        self.vectors[place] = changed[0].clone()
        return changed


class Hooked:
    """A masked-LM of one of these architectures."""

    def __init__(self, architecture: str, folder: Path, layers: int) -> None:
        kind = AutoModelForMaskedLM
        self.model = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float64).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.layers = layers
        self._architecture, self._paths = architecture, PATHS[architecture]
        self._segments = "token_type_ids" in inspect.signature(self.model.forward).parameters

    def read(self, text: str, pair: str | None = None) -> dict[str, torch.Tensor]:
        encoded = self.tokenizer(text, pair, return_tensors="pt")
        names = ("input_ids", "attention_mask", *(("token_type_ids",) if self._segments else ()))
        return {name: encoded[name] for name in names if name in encoded}

    def run(
        self, inputs: Mapping[str, torch.Tensor], changes: Changes | None = None
    ) -> tuple[torch.Tensor, dict[Place, torch.Tensor]]:
        """Scores [tokens, vocabulary], and the vectors of all places after the changes."""
        current = _Pass(changes or {})
        with torch.no_grad(), self._hooks(current):
            scores = self.model(**inputs).logits[0]
        return scores, current.vectors

    @contextmanager
    def _hooks(self, current: _Pass) -> Iterator[None]:
        layers, heads, neurons, end = self._paths
        modules = list(self.model.get_submodule(layers))

        def enters(_: Any, read: tuple[Any, ...]) -> Any:
            current.layer += 1
            return (current.at((STATE, current.layer), read[0]), *read[1:])

        def leaves(_: Any, __: Any, output: Any) -> Any:
            if current.layer + 1 < self.layers:
                return None
            whole = isinstance(output, torch.Tensor)
            changed = current.at((STATE, self.layers), output if whole else output[0])
            return changed if whole else (changed, *output[1:])

        def reads(site: int) -> Callable[..., Any]:
            return lambda _, read: (current.at((site, current.layer), read[0]), *read[1:])

        def writes(site: int) -> Callable[..., Any]:
            return lambda _, __, output: current.at((site, current.layer), output)

        with ExitStack() as stack:
            for module in modules:
                for site, name in zip((QUERY, KEY, VALUE), INPUTS.get(self._architecture, ()), strict=False):
                    handle = module.get_submodule(name).register_forward_hook(writes(site))
                    stack.callback(handle.remove)
                handles = [
                    module.register_forward_pre_hook(enters),
                    module.get_submodule(heads).register_forward_pre_hook(reads(HEADS)),
                    module.get_submodule(heads).register_forward_hook(writes(ATTENTION)),
                    module.get_submodule(neurons).register_forward_pre_hook(reads(NEURONS)),
                    module.get_submodule(neurons).register_forward_hook(writes(FEED_FORWARD)),
                ]
                if end is None:
                    handles.append(module.register_forward_hook(leaves))
                for handle in handles:
                    stack.callback(handle.remove)
            if end is not None:
                stack.callback(self.model.get_submodule(end).register_forward_hook(leaves).remove)
            yield


def put(vectors: torch.Tensor, positions: Sequence[int], columns: slice = slice(None)) -> Change:
    """Vectors of another run at some positions, and there at some of their numbers."""
    return only(lambda _: vectors[list(positions), columns], positions, columns)


def only(change: Change, positions: Sequence[int], columns: slice = slice(None)) -> Change:
    """A change of chosen vectors alone."""

    def made(x: torch.Tensor) -> torch.Tensor:
        x[list(positions), columns] = change(x[list(positions), columns])
        return x

    return made
