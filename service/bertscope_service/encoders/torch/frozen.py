"""Holds constant, in gradients, what makes a model nonlinear (Modarressi et al. 2023, section 3; Ali et al. 2022, section 3).

Inside `Frozen`, attention weights, deviations of normalisations, and factors activation(z) / z have no gradient. PyTorch's
functions are recognised by their names, so that all architectures are covered alike, also where their code writes a
normalisation or an activation out. Each function gives what it gives without; its gradient is that of a linear form, in which
the held numbers are constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

SMALL = 1e-4
"""Stands for an input of 0 in the factor of an activation, since 0 / 0 is none."""

HELD = frozenset({"erf", "norm", "rsqrt", "sigmoid", "softmax", "sqrt"})
"""Functions whose output is constant: weights, deviations, lengths, and factors of activations that are written out."""

ACTIVATIONS = frozenset({"clip", "gelu", "hardswish", "hardtanh", "leaky_relu", "mish", "relu", "silu", "square", "tanh"})
"""Functions f whose factor f(z) / z is constant."""

PRODUCTS = frozenset({"mul", "multiply"})
SUMS = frozenset({"add"})


class Frozen(TorchFunctionMode):
    """Makes gradients those of linear forms, for what runs on this thread while the context lasts.

    Of a product of an activation with another tensor that has a gradient, the activation is constant: in a gated feed-forward
    block the gate, and tanh in a GELU that is written out.
    """

    def __init__(self) -> None:
        super().__init__()
        # Tensors by id; they stay alive, lest another one gets the id.
        self._activated: dict[int, torch.Tensor] = {}

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        if not any(map(_has_gradient, args)):
            return func(*args, **named)
        if name in HELD:
            return func(*args, **named).detach()
        if name in FORMS:
            with torch.no_grad():
                value = func(*args, **named)
            linear = FORMS[name](func, *args, **named)
            found = linear + (value - linear).detach()  # the very value, so that a frozen model computes what it always does
            return self._mark(found) if name in ACTIVATIONS else found
        activated = [id(one) in self._activated for one in args]
        if name in PRODUCTS and any(activated) and all(map(_has_gradient, args)):
            held = activated.index(True)
            args = tuple(one.detach() if place == held else one for place, one in enumerate(args))
        found = func(*args, **named)
        by_number = any(isinstance(one, (int, float)) for one in args)
        return self._mark(found) if name in SUMS | PRODUCTS and any(activated) and by_number else found

    def _mark(self, found: torch.Tensor) -> torch.Tensor:
        """Takes a tensor for an activation; a number may be added to one, or multiply it."""
        self._activated[id(found)] = found
        return found


def _has_gradient(one: Any) -> bool:
    return isinstance(one, torch.Tensor) and one.requires_grad


def _activation(func: Callable[..., torch.Tensor], read: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
    apart = read.detach().where(read != 0, SMALL)
    return read * (func(apart, *more, **named) / apart)


def _layer_norm(
    func: object,
    read: torch.Tensor,
    shape: tuple[int, ...],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    dims = tuple(range(-len(shape), 0))
    variance = read.detach().float().var(dims, correction=0, keepdim=True)
    normalised = (read - read.mean(dims, keepdim=True)) * torch.rsqrt(variance + eps).to(read.dtype)
    scaled = normalised if weight is None else normalised * weight
    return scaled if bias is None else scaled + bias


def _attention(
    func: object,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    *,
    scale: float | None = None,
) -> torch.Tensor:
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores: torch.Tensor = query.detach() @ key.detach().transpose(-2, -1) * factor
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        scores = scores.masked_fill(~attn_mask, torch.finfo(scores.dtype).min)
    elif attn_mask is not None:
        scores = scores + attn_mask.detach()
    return torch.matmul(scores.softmax(dim=-1, dtype=torch.float32).to(value.dtype), value)


def _cosine(func: object, first: torch.Tensor, second: torch.Tensor, dim: int = 1, eps: float = 1e-8) -> torch.Tensor:
    product: torch.Tensor = (first * second).sum(dim=dim)
    lengths: list[torch.Tensor] = [one.detach().norm(dim=dim).clamp_min(eps) for one in (first, second)]
    return product / (lengths[0] * lengths[1])


FORMS: Mapping[str, Callable[..., torch.Tensor]] = dict.fromkeys(ACTIVATIONS, _activation) | {
    "cosine_similarity": _cosine,
    "layer_norm": _layer_norm,
    "scaled_dot_product_attention": _attention,
}
"""The linear form of each function, which gets the function and its arguments."""


def refusal_of(config: Any) -> str | None:
    """Returns why a model of a config can't be frozen, with the remedy; None if it can."""
    from transformers.activations import ACT2FN

    for key, name in activations_of(config):
        if not _is_linear(ACT2FN[name]):
            return f"its activation ({key} {name!r} in its config.json) is no factor of its input; ask for another method"
    return None


def activations_of(config: Any) -> Iterator[tuple[str, str]]:
    """Yields the entries of a config that name activations, with their values."""
    from transformers.activations import ACT2FN  # takes long, and a server of graphs needs none

    for key, value in config.to_dict().items():
        if "act" in key and isinstance(value, str) and value in ACT2FN:
            yield key, value


def _is_linear(activation: Callable[[torch.Tensor], torch.Tensor]) -> bool:
    """Returns whether an activation is its input times what `Frozen` holds constant."""
    with torch.inference_mode(False), torch.enable_grad(), Frozen():
        read = torch.linspace(-4, 4, 9, dtype=torch.float32, device="cpu").requires_grad_()
        output = activation(read)
        if not output.requires_grad:
            return False
        (factor,) = torch.autograd.grad(output.sum(), read, create_graph=True)
    return not factor.requires_grad and torch.allclose(factor * read, output, atol=1e-5)
