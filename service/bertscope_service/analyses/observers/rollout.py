"""Attention rollout (Abnar & Zuidema 2020): attention multiplied up through the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bertscope_service.encoders.base import Shape


class Rollout:
    """The running product of a batch. `product` is that of the layers so far, float32 [rows, length, length], None before the
    first one."""

    def __init__(self, shape: Shape, *, residual: bool, product: torch.Tensor | None) -> None:
        """`residual`: with the residual connection, (W + I) / 2 in place of W."""
        self.product = product
        self._shape = shape
        self._residual = residual

    def take(self, layer: int, maps: torch.Tensor) -> torch.Tensor:
        """Multiplies a layer's maps [rows, heads, length, length] up. Returns the rollout to it, [rows, 1, length, length].

        W is the mean over the heads that the layer's weights have; without any, only the residual connection is left, W = I.
        """
        heads = len(self._shape.heads_of(layer))
        mixed = maps.float().sum(dim=1)
        if heads and self._residual:
            mixed.div_(heads)
        if self._residual or not heads:
            mixed.diagonal(dim1=1, dim2=2).add_(1.0)
        mixed.div_(mixed.sum(dim=-1, keepdim=True))
        self.product = mixed if self.product is None else mixed @ self.product
        return self.product[:, None]

    def row(self, index: int, length: int) -> torch.Tensor:
        """Returns one row's product without padding, [length, length]; it holds no memory of the batch."""
        if self.product is None:
            raise ValueError("no layer was multiplied up")
        return self.product[index, :length, :length].clone()


def stack_products(products: Sequence[torch.Tensor | None]) -> torch.Tensor | None:
    """Returns one batch of the products of single rows, zeros at padding; None if they have none yet."""
    known = [product for product in products if product is not None]
    if not known:
        return None
    longest = max(map(len, known))
    stacked = known[0].new_zeros((len(known), longest, longest))
    for row, product in zip(stacked, known, strict=True):
        row[: len(product), : len(product)] = product
    return stacked
