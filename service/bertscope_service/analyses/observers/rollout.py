"""Rollouts (Abnar & Zuidema 2020): what tokens take from tokens in each layer, multiplied up through the layers."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from bertscope_service.analyses.observers.contributions import shares_of_rows


class Rollout:
    """The running product of a batch. `product` is that of the layers so far, float32 [rows, length, length], None before the
    first one."""

    def __init__(self, product: torch.Tensor | None, *, of_norms: bool) -> None:
        """`of_norms`: of matrices whose rows have any sum."""
        self.product = product
        self._of_norms = of_norms

    def multiply(self, matrix: torch.Tensor) -> None:
        """Multiplies a layer's matrix up, [rows, 1, length, length]."""
        product = matrix[:, 0] if self.product is None else matrix[:, 0] @ self.product
        if self._of_norms:
            # A factor of a whole text changes no share. Without one, the product of many layers would be infinite.
            product = product / product.amax(dim=(1, 2), keepdim=True).clamp(min=torch.finfo(product.dtype).tiny)
        self.product = product

    def shares(self) -> torch.Tensor:
        """Returns the rollout to the last layer, [rows, 1, length, length]; rows sum to 1."""
        product = self._known()[:, None]
        return shares_of_rows(product) if self._of_norms else product

    def row(self, index: int, length: int) -> torch.Tensor:
        """Returns one row's product without padding, [length, length]; it holds no memory of the batch."""
        return self._known()[index, :length, :length].clone()

    def _known(self) -> torch.Tensor:
        if self.product is None:
            raise ValueError("no layer was multiplied up")
        return self.product


def mixed_maps(maps: torch.Tensor, heads: int, *, residual: bool) -> torch.Tensor:
    """Returns what a layer's maps [rows, heads, length, length] mix, [rows, 1, length, length]: the mean W over the heads that
    its weights have, or with the residual connection (W + I) / 2; without heads I. Rows sum to 1."""
    mixed = maps.float().sum(dim=1, keepdim=True)
    if heads and residual:
        mixed.div_(heads)
    if residual or not heads:
        mixed.diagonal(dim1=2, dim2=3).add_(1.0)
    return mixed.div_(mixed.sum(dim=-1, keepdim=True))


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
