"""transformers alone, with plain hooks on its own modules, one text at a time: what changes at sites are compared with."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any

import torch
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from transformers import AutoTokenizer

from tests.support.reference import Reference

STATE, HEADS, ATTENTION, NEURONS, FEED_FORWARD = range(1, 6)
"""Sites by the numbers of bertscope.v1.Site."""

NUMBERS = {
    Site.STATE: STATE,
    Site.HEAD_OUTPUT: HEADS,
    Site.ATTENTION_OUTPUT: ATTENTION,
    Site.ACTIVATIONS: NEURONS,
    Site.FEED_FORWARD_OUTPUT: FEED_FORWARD,
}

QUERY, KEY, VALUE = range(7, 10)
"""What the heads of a layer read, side by side."""

Place = tuple[int, int]
"""A site and its layer."""

Change = Callable[[torch.Tensor], torch.Tensor]
"""What becomes of the vectors of a site, [tokens, size]."""

Changes = Mapping[Place, Change]

PATHS = {
    "bert": ("attention.output.dense", "output.dense"),
    "albert": ("attention.dense", "ffn_output"),
    "distilbert": ("attention.out_lin", "ffn.lin2"),
    "modernbert": ("attn.Wo", "mlp.Wo"),
    "deberta": ("attention.output.dense", "output.dense"),
}
"""By architecture: what reads the heads and what reads the neurons of a layer. Those of others are taken from the service."""

INPUTS = {
    "bert": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "albert": ("attention.query", "attention.key", "attention.value"),
    "distilbert": ("attention.q_lin", "attention.k_lin", "attention.v_lin"),
}
"""The projections of a layer, of architectures whose paths are followed."""

CHANNELS_FIRST = frozenset({"squeezebert"})
"""Architectures whose layers hold [size, tokens]; between them are states that are not followed."""


class Hooked:
    """A model, and its vectors at all places while it reads one text."""

    def __init__(self, reference: Reference) -> None:
        self.reference, self.model = reference, reference.model
        self.name = self.model.config.model_type
        self.architecture = ARCHITECTURES[self.name](self.model)
        self.layers = len(self.architecture.layers)

    @cached_property
    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.reference.folder)

    def read(self, text: str, pair: str | None = None) -> dict[str, torch.Tensor]:
        encoded = self.tokenizer(text, pair, return_tensors="pt")
        names = ("input_ids", "attention_mask", *(("token_type_ids",) if self.reference.takes_segments else ()))
        return {name: encoded[name] for name in names if name in encoded}

    @torch.no_grad()
    def run(
        self, inputs: Mapping[str, torch.Tensor], changes: Changes | None = None
    ) -> tuple[torch.Tensor, dict[Place, torch.Tensor]]:
        """Scores [tokens, vocabulary], and the vectors of all places after the changes."""
        with self.changed(changes or {}) as vectors:
            scores = self.model(**inputs).logits[0]
        return scores, vectors

    @contextmanager
    def changed(self, changes: Changes) -> Iterator[dict[Place, torch.Tensor]]:
        """Changes vectors meanwhile, and keeps those of all places."""
        vectors: dict[Place, torch.Tensor] = {}

        def at(place: Place, value: torch.Tensor) -> torch.Tensor:
            turned = self.name in CHANNELS_FIRST and place[0] != STATE
            own = (value.transpose(1, 2) if turned else value)[0]
            new = changes[place](own.clone()).to(value.dtype) if place in changes else own
            vectors[place] = new.clone()
            return (new[None].transpose(1, 2) if turned else new[None]) if place in changes else value

        def before(places: Iterator[Place | None], _: Any, given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            if (place := next(places, None)) is None:
                return None
            if given:
                return (at(place, given[0]), *given[1:]), named
            return given, {**named, "hidden_states": at(place, named["hidden_states"])}

        def after(places: Iterator[Place | None], _: Any, given: Any, written: Any) -> Any:
            if (place := next(places, None)) is None:
                return None
            return (at(place, written[0]), *written[1:]) if isinstance(written, tuple) else at(place, written)

        with ExitStack() as hooks:
            for (module, reads), places in self._calls.items():
                if reads:
                    hook = module.register_forward_pre_hook(partial(before, iter(places)), with_kwargs=True)
                else:
                    hook = module.register_forward_hook(partial(after, iter(places)))
                hooks.callback(hook.remove)
            yield vectors

    @cached_property
    def _calls(self) -> dict[tuple[Any, bool], list[Place | None]]:
        """The places that each module reads (True) or writes, in the order of its calls: ALBERT's layers are one module."""
        calls: dict[tuple[Any, bool], list[Place | None]] = defaultdict(list)
        for layer in range(self.layers):
            if layer == 0 or self.name not in CHANNELS_FIRST:
                calls[self._state(layer)].append((STATE, layer))
            module, paths = self.architecture.layers[layer], PATHS.get(self.name)
            heads = module.get_submodule(paths[0]) if paths else self.architecture.output_projection(layer)
            neurons = module.get_submodule(paths[1]) if paths else self.architecture.second_matrix(layer)
            for part, read, written in ((heads, HEADS, ATTENTION), (neurons, NEURONS, FEED_FORWARD)):
                calls[part, True].append((read, layer))
                calls[part, False].append((written, layer))
            for site, name in zip((QUERY, KEY, VALUE), INPUTS.get(self.name, ()), strict=False):
                calls[module.get_submodule(name), False].append((site, layer))
        end = self._state(self.layers)
        earlier = self.architecture.layers[:-1].count(end[0])
        calls[end] += [*[None] * earlier, (STATE, self.layers)]
        return calls

    def _state(self, layer: int) -> tuple[Any, bool]:
        """The module that reads (True) or writes the state of a layer."""
        architecture, end = self.architecture, layer == self.layers
        if self.name in CHANNELS_FIRST:  # its encoder calls the layers' forward, past their hooks
            return (self.model.cls, True) if layer else (architecture.encoder.embeddings, False)
        if self.name in ("xlm", "flaubert"):
            norms = architecture.encoder.layer_norm2
            return (norms[layer - 1] if layer else architecture.encoder.layer_norm_emb), False
        if end:
            return architecture.norm_behind or architecture.layers[-1], False
        return architecture.layers[layer], True


def put(vectors: torch.Tensor, positions: Sequence[int], columns: slice = slice(None)) -> Change:
    """Vectors of another run at some positions, and there at some of their numbers."""
    return only(lambda _: vectors[list(positions), columns], positions, columns)


def only(change: Change, positions: Sequence[int], columns: slice = slice(None)) -> Change:
    """A change of chosen vectors alone."""

    def made(x: torch.Tensor) -> torch.Tensor:
        x[list(positions), columns] = change(x[list(positions), columns])
        return x

    return made
