"""Changes at the sites of transformers' own modules, by plain hooks: what the encoder's are compared with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.sites import Site
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

from tests.support.reference import SOFTMAX, Reference

Edit = Callable[[torch.Tensor], torch.Tensor]
"""Changes the vectors of one text at a site, [tokens, size]."""


class HookedReference:
    """transformers' model of one text at a time, with a change at a site of a layer."""

    def __init__(self, reference: Reference, name: str) -> None:
        self.reference, self.name = reference, name
        self.architecture = ARCHITECTURES[name](reference.model)

    @torch.inference_mode()
    def logits(self, sequence: TokenSequence, site: Site, layer: int, edit: Edit) -> torch.Tensor:
        """Scores of every position, [tokens, vocabulary]."""
        with self.hooked(site, layer, edit):
            found: torch.Tensor = self.reference.model(**self.reference.inputs([sequence])).logits[0]
        return found

    @contextmanager
    def hooked(self, site: Site, layer: int, edit: Edit) -> Iterator[None]:
        """Changes the vectors at a site of a layer meanwhile."""
        calls: Counter[Any] = Counter()
        module, reads = self._module(site, layer)
        # ALBERT's layers are one module, which is called once for each.
        first = max(0, layer - 1) if site is Site.STATE and not reads else layer
        same = self.architecture.layers[:first] if site is Site.STATE else [self._module(site, one)[0] for one in range(first)]
        number = sum(one is module for one in same)

        def changed(value: torch.Tensor) -> torch.Tensor:
            calls[module] += 1
            if calls[module] - 1 != number:
                return value
            turned = self.name == "squeezebert" and site is not Site.STATE
            vectors = value.transpose(1, 2) if turned else value
            after = edit(vectors[0])[None].to(value.dtype)
            return after.transpose(1, 2) if turned else after

        def before(_: Any, given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
            if given:
                return (changed(given[0]), *given[1:]), named
            return given, {**named, "hidden_states": changed(named["hidden_states"])}

        def after(_: Any, given: tuple[Any, ...], written: Any) -> Any:
            if isinstance(written, tuple):
                return (changed(written[0]), *written[1:])
            return changed(written)

        with ExitStack() as hooks:
            hook = module.register_forward_pre_hook(before, with_kwargs=True) if reads else module.register_forward_hook(after)
            hooks.callback(hook.remove)
            yield

    def _module(self, site: Site, layer: int) -> tuple[Any, bool]:
        """The module whose input (True) or output (False) the site is."""
        architecture = self.architecture
        if site is Site.ATTENTION_OUTPUT:
            return architecture.output_projection(layer), False
        if site is Site.HEAD_OUTPUT:
            return architecture.output_projection(layer), True
        if site is Site.ACTIVATIONS:
            return architecture.second_matrix(layer), True
        if site is Site.FEED_FORWARD_OUTPUT:
            return architecture.second_matrix(layer), False
        if self.name == "squeezebert":  # its encoder calls the layers' forward, past their hooks
            return (self.reference.model.cls, True) if layer else (architecture.encoder.embeddings, False)
        if layer == len(architecture.layers):
            return architecture.norm_behind or self._last(layer - 1), False
        if self.name in ("xlm", "flaubert"):
            return (
                (architecture.encoder.layer_norm2[layer - 1], False) if layer else (architecture.encoder.layer_norm_emb, False)
            )
        return architecture.layers[layer], True

    def _last(self, layer: int) -> Any:
        return (
            self.architecture.encoder.layer_norm2[layer]
            if self.name in ("xlm", "flaubert")
            else self.architecture.layers[layer]
        )


class Knockout(torch.overrides.TorchFunctionMode):
    """Takes attention weights of one text away, and divides by what is left, whatever the architecture."""

    def __init__(self, layer: int, blocked: torch.Tensor) -> None:
        """blocked: bool [heads, tokens, tokens]."""
        super().__init__()
        self.layer, self.blocked, self.calls = layer, blocked, 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        if func not in SOFTMAX or found.ndim != 4 or found.shape[-1] != found.shape[-2]:
            return found
        self.calls += 1
        if self.calls - 1 != self.layer:
            return found
        left = found * ~self.blocked
        return left / left.sum(dim=-1, keepdim=True).clamp_min(1e-30)
