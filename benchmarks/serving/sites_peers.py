"""Patches states and paths of a BERT as its users do: by hooks on transformers' module, and by pyvene."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from bertscope_service.embedded import EMBEDDED_FOLDER
from numpy.typing import NDArray
from transformers import AutoModelForMaskedLM, AutoTokenizer

from benchmarks.peers.environments import packages_folder

Floats = NDArray[np.float64]
Change = Callable[[torch.Tensor], torch.Tensor]
PYVENE = ("pyvene==0.1.8",)
"""Installed without dependencies: it runs on our own PyTorch and transformers."""


class Edge(NamedTuple):
    """An edge: from a head (None: the feed-forward block) of a layer to a part of another one; the logits have no layer."""

    layer: int
    head: int | None
    part: str
    to_layer: int
    to_head: int | None


class Hooked:
    """The model of a server by transformers, and a pair of texts of as many tokens with a mask: the corrupted one gets vectors
    of the clean one. Scores are the logit of one word at the mask less that of another."""

    def __init__(self, clean: str, corrupted: str, answers: tuple[str, str]) -> None:
        tokenizer = AutoTokenizer.from_pretrained(EMBEDDED_FOLDER)
        self.model = AutoModelForMaskedLM.from_pretrained(EMBEDDED_FOLDER, dtype=torch.float32).eval()
        self.clean, self.corrupted = (torch.tensor([tokenizer(text)["input_ids"]]) for text in (clean, corrupted))
        self._entries = tokenizer.convert_tokens_to_ids(list(answers))
        self._mask = int((self.corrupted[0] == tokenizer.mask_token_id).nonzero())
        self.length = self.corrupted.shape[1]
        self.layers = list(self.model.bert.encoder.layer)
        # What a layer reads, and the head behind the last one.
        self._states = [self.model.bert.embeddings, *self.layers]
        self._blocks = [block for layer in self.layers for block in (layer.attention.output.dense, layer.output.dense)]
        self._kept = self._record(self.corrupted)
        self._other = self._record(self.clean)

    @property
    def edges(self) -> list[Edge]:
        """All edges of the model."""
        count, heads = len(self.layers), range(self.model.config.num_attention_heads)
        found = []
        for layer in range(count):
            for head in (*heads, None):
                for later in range(layer + 1, count):
                    found += [Edge(layer, head, part, later, to) for part in ("query", "key", "value") for to in heads]
                first = layer + (head is None)
                found += [Edge(layer, head, "feed_forward", later, None) for later in range(first, count)]
                found.append(Edge(layer, head, "logits", count, None))
        return found

    def everywhere(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scores [rows], from the logits of all positions."""
        return self.from_logits(self.model(input_ids=ids).logits)

    def from_logits(self, logits: torch.Tensor) -> torch.Tensor:
        """Returns scores [rows] from the logits of all positions, [rows, length, vocabulary]."""
        return self._scores(logits[:, self._mask])

    def at_mask(self, ids: torch.Tensor) -> torch.Tensor:
        """Returns scores [rows], from the logits at the mask alone."""
        return self._scores(self.model.cls(self.model.bert(input_ids=ids).last_hidden_state[:, self._mask]))

    def _scores(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, self._entries[0]] - logits[:, self._entries[1]]

    @torch.inference_mode()
    def singly(self, score: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
        """Returns the score with one state changed, [layers, positions]: a run for each."""
        found = np.empty((len(self.layers), self.length))
        clean = self._record(self.clean)
        for layer, place in np.ndindex(*found.shape):

            def patched(states: torch.Tensor, layer: int = layer, place: int = place) -> torch.Tensor:
                states = states.clone()
                states[:, place] = clean[self._states[layer]][:, place]
                return states

            with changed(self._states[layer], patched):
                found[layer, place] = float(score(self.corrupted))
        return found

    @torch.inference_mode()
    def batched(self, score: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
        """The same by one batch for each layer."""
        clean, rows = self._record(self.clean), torch.arange(self.length)
        found = []
        for layer in range(len(self.layers)):

            def patched(states: torch.Tensor, layer: int = layer) -> torch.Tensor:
                states = states.clone()
                states[rows, rows] = clean[self._states[layer]][0]
                return states

            with changed(self._states[layer], patched):
                found.append(score(self.corrupted.expand(self.length, -1)).double().numpy())
        return np.stack(found)

    @torch.inference_mode()
    def along(self, edges: list[Edge], score: Callable[[torch.Tensor], torch.Tensor]) -> Floats:
        """Returns the score with each edge changed alone, by two passes: the receiver's input with all other blocks as they
        were, and the model with what the receiver makes of it."""
        return np.array([float(self._along(edge, score)) for edge in edges])

    def _along(self, edge: Edge, score: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        layer = self.layers[edge.layer]
        sender = layer.output.dense if edge.head is None else layer.attention.output.dense
        with frozen([(block, self._kept[block]) for block in self._blocks if block is not sender]):
            if edge.head is None:
                with changed(sender, lambda _: self._other[sender]):
                    read = self._read(edge)
            else:
                with changed_input(sender, self._with_head(sender, edge.head)):
                    read = self._read(edge)
        if edge.part == "logits":
            with changed(self.layers[-1], lambda _: read):
                return score(self.corrupted)
        receiver = self.layers[edge.to_layer]
        if edge.to_head is None:
            with changed_input(receiver.intermediate.dense, lambda _: read):
                return score(self.corrupted)
        projection = getattr(receiver.attention.self, edge.part)
        part = self._of_head(edge.to_head)

        def patched(own: torch.Tensor) -> torch.Tensor:
            own = own.clone()
            own[..., part] = torch.nn.functional.linear(read, projection.weight[part], projection.bias[part])
            return own

        with changed(projection, patched):
            return score(self.corrupted)

    def _read(self, edge: Edge) -> torch.Tensor:
        """Returns what a receiver reads."""
        module = self.layers[edge.to_layer].attention if edge.part == "feed_forward" else self._states[edge.to_layer]
        seen: list[torch.Tensor] = []
        handle = module.register_forward_hook(lambda *given: seen.append(first(given[-1])))
        self.model.bert(input_ids=self.corrupted)
        handle.remove()
        return seen[0]

    def _with_head(self, sender: torch.nn.Module, head: int) -> Change:
        def patched(contexts: torch.Tensor) -> torch.Tensor:
            contexts = contexts.clone()
            contexts[..., self._of_head(head)] = self._other["input", sender][..., self._of_head(head)]
            return contexts

        return patched

    def _of_head(self, head: int) -> slice:
        size = self.model.config.hidden_size // self.model.config.num_attention_heads
        return slice(head * size, (head + 1) * size)

    @torch.inference_mode()
    def _record(self, ids: torch.Tensor) -> dict[Any, torch.Tensor]:
        """Returns the output of each state's and block's module on a text, and the inputs of blocks as ("input", block)."""
        found: dict[Any, torch.Tensor] = {}

        def keep(module: torch.nn.Module, given: tuple[torch.Tensor, ...], output: Any) -> None:
            found[module], found["input", module] = first(output), given[0] if given else torch.empty(0)

        hooks = [module.register_forward_hook(keep) for module in (*self._states, *self._blocks)]
        self.model.bert(input_ids=ids)
        for hook in hooks:
            hook.remove()
        return found


def first(output: Any) -> torch.Tensor:
    """Returns the tensor of a module's output, which may be the first of several."""
    found: torch.Tensor = output[0] if isinstance(output, tuple) else output
    return found


@contextmanager
def changed(module: torch.nn.Module, change: Change) -> Iterator[None]:
    """Changes the output of a module."""

    def hook(_: torch.nn.Module, __: Any, output: Any) -> Any:
        found = change(first(output))
        return (found, *output[1:]) if isinstance(output, tuple) else found

    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def changed_input(module: torch.nn.Module, change: Change) -> Iterator[None]:
    """Changes what a module reads."""
    handle = module.register_forward_pre_hook(lambda _, given: (change(given[0]), *given[1:]))
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def frozen(outputs: list[tuple[torch.nn.Module, torch.Tensor]]) -> Iterator[None]:
    """Lets modules give what they gave before."""
    handles = [module.register_forward_hook(lambda *_, output=output: output) for module, output in outputs]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def by_pyvene(peer: Hooked) -> Callable[[], Floats]:
    """Returns what makes the grid of `Hooked.singly` with pyvene, which knows ESM and no BERT: one mapping is registered.

    Raises UnavailableError if it can't be installed."""
    sys.path.append(str(packages_folder(Path(tempfile.gettempdir()) / "bertscope-pyvene", PYVENE)))
    pyvene = import_module("pyvene")
    names = import_module("pyvene.models.esm.modelings_intervenable_esm")
    kind = type(peer.model)
    pyvene.type_to_module_mapping[kind] = {
        name: (f"bert.{path}", hook) for name, (path, hook) in names.esm_type_to_module_mapping.items()
    }
    pyvene.type_to_dimension_mapping[kind] = names.esm_type_to_dimension_mapping
    models = [
        pyvene.IntervenableModel(
            {"layer": layer, "component": "block_input", "intervention_type": pyvene.VanillaIntervention}, peer.model
        )
        for layer in range(len(peer.layers))
    ]
    return partial(_pyvene_grid, peer, models)


@torch.inference_mode()
def _pyvene_grid(peer: Hooked, models: list[Any]) -> Floats:
    found = np.empty((len(models), peer.length))
    for layer, place in np.ndindex(*found.shape):
        _, output = models[layer]({"input_ids": peer.corrupted}, [{"input_ids": peer.clean}], {"sources->base": place})
        found[layer, place] = float(peer.from_logits(output.logits))
    return found
