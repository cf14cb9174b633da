"""Reduces the parts of a layer to one number for each pair of tokens: norms of contributions, and value zeroing.

f(x_j) = (x_j W_V + b_V) W_O is the transformed vector of a head, and a head adds A[i,j] f(x_j) to the output at i because of j.
The vectors A[i,j] f(x_j) are never built: that would take length times the memory of the transformed vectors.
"""

from __future__ import annotations

import torch

from bertscope_service.encoders.decomposition import Decomposition, LayerParts, RowParts
from bertscope_service.encoders.state import to_device

NUMBERS_AT_A_TIME = 1 << 22
"""Numbers in an intermediate tensor of one text, 16 MiB in float32; longer texts are reduced in parts."""

SMALLEST_DISTANCE = 1e-12
"""Cosine distances below are rounding of float32, and count as 0."""


def norms(parts: LayerParts, decomposition: Decomposition, heads: int) -> torch.Tensor:
    """Returns ||A[i,j] f(x_j)|| of all `heads` of a layer (Kobayashi et al. 2020), [rows, heads, length, length]; zeros for
    those that its weights lack. Overwrites the parts' weights."""
    if not parts.heads:
        return parts.weights.new_zeros((len(parts.weights), heads, *parts.weights.shape[2:]))
    projection = decomposition.projection(parts.layer)
    sizes = parts.weights.new_empty(parts.values.shape[:3])
    for place, matrix in enumerate(projection):
        sizes[:, place] = torch.linalg.vector_norm(parts.values[:, place].float() @ matrix, dim=-1)
    found = parts.weights.mul_(sizes[:, :, None]).abs_()
    if len(parts.heads) == heads:
        return found
    whole = found.new_zeros((len(found), heads, *found.shape[2:]))
    index = to_device(torch.tensor(parts.heads, dtype=torch.int64, device="cpu"), found.device)
    return whole.index_copy_(1, index, found)


def layer_norms(projection: torch.Tensor, row: RowParts) -> torch.Tensor:
    """Returns ||sum_h A_h[i,j] f_h(x_j)|| of a text (Kobayashi et al. 2020), [length, length]."""
    return summed_norms(row.weights, row.values.float() @ projection)


def layer_output_norms(decomposition: Decomposition, layer: int, projection: torch.Tensor, row: RowParts) -> torch.Tensor:
    """Returns the norms after residual connection and layer normalisation (Kobayashi et al. 2021), [length, length].

    The normalisation subtracts the mean of a vector, which is linear, and divides by the deviation of the whole sum at i.
    """
    normalisation = decomposition.normalisation(layer, row)

    def centred(vectors: torch.Tensor) -> torch.Tensor:
        return (vectors - vectors.mean(dim=-1, keepdim=True)) * normalisation.scale

    vectors = centred(row.values.float() @ projection)
    found = summed_norms(row.weights, vectors)
    own_weights = row.weights.diagonal(dim1=1, dim2=2)
    own = (own_weights[:, :, None] * vectors).sum(dim=0) + centred(row.before.float())
    found.diagonal().copy_(torch.linalg.vector_norm(own, dim=-1))
    return found / normalisation.deviation[:, None]


def summed_norms(weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Returns ||sum_h weights[h,i,j] vectors[h,j]||, [length, length], of [heads, length, length] and [heads, length, size].

    Its square is a^T G_j a, with a = weights[:, i, j] and the inner products G_j[h,h'] of the heads' vectors at j.
    """
    heads, length = weights.shape[:2]
    by_token = vectors.transpose(0, 1)
    products = by_token @ by_token.transpose(1, 2)
    found = weights.new_empty((length, length))
    many = max(1, NUMBERS_AT_A_TIME // max(1, heads * length))
    for start in range(0, length, many):
        received = weights[:, :, start : start + many].permute(2, 1, 0)
        squares = ((received @ products[start : start + many]) * received).sum(dim=-1)
        found[:, start : start + many] = squares.clamp_(min=0.0).sqrt_().T
    return found


def zeroed_values(decomposition: Decomposition, layer: int, row: RowParts) -> torch.Tensor:
    """Returns by how much each output changes if the values of a token are zero (Mohebbi et al. 2023), [length, length].

    1 - cos(h_i, h_i'), rows divided by their sums; rows of zeros where nothing changes.
    """
    length, size = row.before.shape
    contexts = row.contexts()
    plain = _unit(decomposition.finish(layer, contexts[None], row.before))[0]
    found = plain.new_empty((length, length))
    # The largest intermediate is that of the feed-forward layer, about four times as wide.
    many = max(1, NUMBERS_AT_A_TIME // (4 * length * size))
    for start in range(0, length, many):
        some = slice(start, start + many)
        lost = torch.einsum("hij,hjs->jihs", row.weights[:, :, some].to(row.values.dtype), row.values[:, some])
        changed = _unit(decomposition.finish(layer, contexts - lost.flatten(2), row.before))
        # Equals 1 - cos, of which little would be left after rounding.
        found[:, some] = (changed - plain).square().sum(dim=-1).T / 2
    found = torch.where(found < SMALLEST_DISTANCE, 0.0, found)
    total = found.sum(dim=-1, keepdim=True)
    return found / torch.where(total > 0, total, 1.0)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
