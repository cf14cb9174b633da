"""Computes attention on CPUs with results that are bitwise independent of the number and length of texts in the batch.

PyTorch's own fused attention sums a row of attention weights in another order if the row is padded. The difference of a few
units in the last place does no harm unless the next step rounds to integers: then it changes an integer now and then, and the
following layers amplify it as much as the rounding itself.

Here every sum has one order. Keys are padded to whole vectors, so that each lane adds the same numbers, zeros at its end;
beyond `LONGEST` keys, products are summed over blocks of that size, one after another, since MKL splits long ones by their
length. Queries are padded, too, since products of one row or a few use different kernels.
"""

from __future__ import annotations

import torch
from torch.nn.functional import pad

VECTOR = 16
"""Numbers that AVX-512 adds at once, and a multiple of the width of narrower vectors."""

LONGEST = 128
"""The number of keys, and so the length of a sum, in one product."""


def exact_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    scaling: float | None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns contexts [rows, heads, n, head_size]; query likewise, key and value [rows, heads, length, head_size].

    bias: added to the scores, broadcastable to [rows, heads, n, length]; None if there is none.
    mask: bool, broadcastable to [rows, heads, n, length], True where a key may be attended to; None if all may.
    """
    count, length = query.shape[2], key.shape[2]
    more, queries = -length % (VECTOR if length <= LONGEST else LONGEST), -count % VECTOR
    if mask is None:
        mask = torch.ones((1, 1, 1, length), dtype=torch.bool, device=query.device)
    mask = pad(mask, (0, more), value=False)
    if mask.shape[2] > 1:
        mask = pad(mask, (0, 0, 0, queries), value=True)
    # The sum of a query's weights is one more column of the product with the values.
    value = pad(torch.cat((value, torch.ones_like(value[..., :1])), dim=-1), (0, 0, 0, more))
    query, key = pad(query, (0, 0, 0, queries)), pad(key, (0, 0, 0, more))
    scores = torch.matmul(query, key.transpose(2, 3)).mul_(query.shape[-1] ** -0.5 if scaling is None else scaling)
    if bias is not None:
        scores = scores + pad(bias, (0, more, 0, queries))
    scores.masked_fill_(~mask, torch.finfo(scores.dtype).min)
    weights = scores.sub_(scores.amax(dim=-1, keepdim=True)).exp_()
    parts = zip(weights.split(LONGEST, dim=-1), value.split(LONGEST, dim=2), strict=True)
    total = torch.matmul(*next(parts))
    for part, values in parts:
        total += torch.matmul(part, values)
    return total[:, :, :count, :-1] / total[:, :, :count, -1:]
