"""Reduces the parts of a layer to one number for each pair of tokens: norms of contributions, and value zeroing.

f(x_j) = (x_j W_V + b_V) W_O is the transformed vector of a head, and a head adds A[i,j] f(x_j) to the output at i because of j.
The vectors A[i,j] f(x_j) are never built: that would take length times the memory of the transformed vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from bertscope_service.encoders.decomposition import Decomposition, LayerParts, RowParts
from bertscope_service.encoders.size_limits import size_limits
from bertscope_service.encoders.state import to_device

SMALLEST_DISTANCE = 1e-12
"""Cosine distances below are rounding of float32, and count as 0."""


def norms(heads: int, decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
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


def layer_norms(decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
    """Returns ||sum_h A_h[i,j] f_h(x_j)|| (Kobayashi et al. 2020), [rows, 1, length, length], zeros at padding."""
    projection = decomposition.projection(parts.layer)
    return _by_row(parts, lambda row: summed_norms(row.weights, row.values.float() @ projection))


def layer_output_norms(decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
    """Returns the norms after residual connection and layer normalisation (Kobayashi et al. 2021), likewise.

    The normalisation subtracts the mean of a vector, which is linear, and divides by the deviation of the whole sum at i.
    """
    projection = decomposition.projection(parts.layer)

    def reduce(row: RowParts) -> torch.Tensor:
        normalisation = decomposition.normalisation(parts.layer, row)
        vectors = _centred(row.values.float() @ projection) * normalisation.scale
        found = summed_norms(row.weights, vectors)
        own_weights = row.weights.diagonal(dim1=1, dim2=2)
        own = (own_weights[:, :, None] * vectors).sum(dim=0) + _centred(row.before.float()) * normalisation.scale
        found.diagonal().copy_(torch.linalg.vector_norm(own, dim=-1))
        return found / normalisation.deviation[:, None]

    return _by_row(parts, reduce)


def _centred(vectors: torch.Tensor) -> torch.Tensor:
    return vectors - vectors.mean(dim=-1, keepdim=True)


def _by_row(parts: LayerParts, reduce: Callable[[RowParts], torch.Tensor]) -> torch.Tensor:
    """Reduces one text after another. Returns [rows, 1, length, length], zeros at padding."""
    found = parts.weights.new_zeros((len(parts.weights), 1, *parts.weights.shape[2:]))
    for index, length in enumerate(parts.lengths):
        found[index, 0, :length, :length] = reduce(parts.row(index))
    return found


def summed_norms(weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Returns ||sum_h weights[h,i,j] vectors[h,j]||, [length, length], of [heads, length, length] and [heads, length, size].

    Its square is a^T G_j a, with a = weights[:, i, j] and the inner products G_j[h,h'] of the heads' vectors at j.
    """
    heads, length = weights.shape[:2]
    by_token = vectors.transpose(0, 1)
    products = by_token @ by_token.transpose(1, 2)
    found = weights.new_empty((length, length))
    many = max(1, size_limits(weights.device).contribution_bytes // (4 * max(1, heads * length)))
    for start in range(0, length, many):
        received = weights[:, :, start : start + many].permute(2, 0, 1).contiguous()
        squares = (products[start : start + many] @ received).mul_(received).sum(dim=1)
        found[:, start : start + many] = squares.clamp_(min=0.0).sqrt_().T
    return found


def zeroed_distances(
    decomposition: Decomposition, layer: int, row: RowParts, tokens: range, found: torch.Tensor | None
) -> torch.Tensor:
    """Returns by how much each output changes if the values of one of `tokens` are zero, 1 - cos(h_i, h_i'), [length, length]
    (Mohebbi et al. 2023). The columns of other tokens are those of `found`, zeros if it is None."""
    length, size = row.before.shape
    contexts = row.contexts()
    plain = _unit(decomposition.finish(layer, contexts[None], row.before))[0]
    found = plain.new_zeros((length, length)) if found is None else found.clone()
    # The largest intermediate is that of the feed-forward layer, about four times as wide.
    many = max(1, size_limits(row.before.device).contribution_bytes // (4 * 4 * length * size))
    for start in range(tokens.start, tokens.stop, many):
        some = slice(start, min(start + many, tokens.stop))
        lost = torch.einsum("hij,hjs->jihs", row.weights[:, :, some].to(row.values.dtype), row.values[:, some])
        changed = _unit(decomposition.finish(layer, contexts - lost.flatten(2), row.before))
        # Equals 1 - cos, of which little would be left after rounding.
        distances = (changed - plain).square().sum(dim=-1).T / 2
        found[:, some] = torch.where(distances < SMALLEST_DISTANCE, 0.0, distances)
    return found


def shares_of_rows(numbers: torch.Tensor) -> torch.Tensor:
    """Returns numbers [..., length] divided by the sums of their rows; rows of zeros stay."""
    total = numbers.sum(dim=-1, keepdim=True)
    return numbers / torch.where(total > 0, total, 1.0)


def _unit(vectors: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(vectors.float(), dim=-1)
