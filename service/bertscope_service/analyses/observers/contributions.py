"""Reduces the parts of a layer to one number for each pair of tokens: norms of contributions, how near they come to the
output (ALTI), and value zeroing.

f(x_j) = (x_j W_V + b_V) W_O is the transformed vector of a head, and a head adds A[i,j] f(x_j) to the output at i because of j.
The vectors A[i,j] f(x_j) are never built: that would take length times the memory of the transformed vectors.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from bertscope_service.encoders.decomposition import Decomposition, FrozenNorm, LayerParts
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
    return _by_rows(parts, lambda some: summed_norms(some.weights, _transformed(some.values, projection)))


def layer_output_norms(decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
    """Returns the norms after residual connection and layer normalisation (Kobayashi et al. 2021), likewise."""
    projection = decomposition.projection(parts.layer)
    return _by_rows(parts, lambda some: _normalised_norms(some, projection, decomposition.normalisation(some)[0]))


def encoder_norms(decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
    """Returns the norms after both layer normalisations (N_Enc of Modarressi et al. 2022), likewise. The feed-forward
    block, which is not linear, has a part in the deviation of the second one alone."""
    projection = decomposition.projection(parts.layer)

    def reduce(some: LayerParts) -> torch.Tensor:
        first, attended = decomposition.normalisation(some)
        return _normalised_norms(some, projection, first, decomposition.normalisation_at_end(some.layer, attended))

    return _by_rows(parts, reduce)


def _normalised_norms(parts: LayerParts, projection: torch.Tensor, *norms: FrozenNorm) -> torch.Tensor:
    """Returns the norms of what each token gives to x + attention(x), after some normalisations of it, [rows, length, length].

    A normalisation subtracts the mean of a vector, which is linear, and divides by the deviation of the whole sum at i.
    """
    vectors, before = _transformed(parts.values, projection), parts.before.float()
    for norm in norms:
        vectors, before = norm.undivided(vectors), norm.undivided(before)
    found = summed_norms(parts.weights, vectors)
    own_weights = parts.weights.diagonal(dim1=2, dim2=3).transpose(0, 1).flatten(1)
    own = (own_weights[:, :, None] * vectors).sum(dim=0).unflatten(0, before.shape[:2]) + before
    found.diagonal(dim1=1, dim2=2).copy_(torch.linalg.vector_norm(own, dim=-1))
    for norm in norms:
        found = found / norm.deviation[:, :, None]
    return found


def nearness(decomposition: Decomposition, parts: LayerParts) -> torch.Tensor:
    """Returns how near each token's contribution T_i(x_j) comes to the attention block's output y_i: max(0, ||y_i||_1 - ||y_i -
    T_i(x_j)||_1), each row divided by its sum, [rows, 1, length, length]: a layer of ALTI (Ferrando et al. 2022)."""
    projection = decomposition.projection(parts.layer)

    def reduce(some: LayerParts) -> torch.Tensor:
        norm, attended = decomposition.normalisation(some)
        vectors, before = norm.undivided(_transformed(some.values, projection)), norm.undivided(some.before.float())
        # All are multiplied by the deviation at i, which the sum of the row cancels.
        return _nearness(some.weights, vectors, before, attended.float() * norm.deviation[:, :, None])

    return shares_of_rows(_by_rows(parts, reduce))


def _nearness(weights: torch.Tensor, vectors: torch.Tensor, before: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """Returns max(0, ||y_i|| - ||y_i - t_ij||), norms L1, with y the `output` [rows, length, size] and t_ij = sum_h
    weights[r,h,i,j] vectors[h,(r,j)], and before[r,i] added where i = j. The vectors t_ij are built for some j at a time."""
    rows, _, length, _ = weights.shape
    by_token = vectors.transpose(0, 1).unflatten(0, (rows, length))
    whole = torch.linalg.vector_norm(output, ord=1, dim=-1)
    found = weights.new_empty((rows, length, length))
    many = max(1, size_limits(weights.device).map_bytes // (4 * rows * length * output.shape[2]))
    for start in range(0, length, many):
        received = weights[..., start : start + many].permute(0, 3, 2, 1)
        left = received @ by_token[:, start : start + many]
        left.diagonal(offset=start, dim1=1, dim2=2).add_(before[:, start : start + many].transpose(1, 2))
        left.sub_(output[:, None])
        distances = torch.linalg.vector_norm(left, ord=1, dim=-1).transpose(1, 2)
        found[..., start : start + many] = (whole[:, :, None] - distances).clamp_(min=0.0)
    return found


def _transformed(values: torch.Tensor, projection: torch.Tensor) -> torch.Tensor:
    """Returns the transformed vectors, float32 [heads, rows * length, size], of values [rows, heads, length, head_size]."""
    return values.float().transpose(0, 1).flatten(1, 2) @ projection


def _by_rows(parts: LayerParts, reduce: Callable[[LayerParts], torch.Tensor]) -> torch.Tensor:
    """Reduces some texts after another to [n, length, length]: one on a CPU, in whose cache it stays, as many as fit on a GPU.
    Returns [rows, 1, length, length], zeros at padding."""
    rows, heads, length, _ = parts.weights.shape
    many = 1
    if parts.weights.device.type != "cpu":
        numbers = max(1, heads) * length * max(length, parts.before.shape[2])
        many = max(1, size_limits(parts.weights.device).contribution_bytes // (4 * numbers))
    found = parts.weights.new_zeros((rows, 1, length, length))
    for begin in range(0, rows, many):
        some = parts.some(slice(begin, begin + many))
        norms = reduce(some)
        if some.valid is not None:
            norms = norms.masked_fill_(~some.valid[:, :, None], 0.0).masked_fill_(~some.valid[:, None, :], 0.0)
        found[begin : begin + many, 0, : norms.shape[1], : norms.shape[1]] = norms
    return found


def summed_norms(weights: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """Returns ||sum_h weights[r,h,i,j] vectors[h,(r,j)]||, [rows, length, length], of [rows, heads, length, length] and
    [heads, rows * length, size].

    Its square is a^T G_j a, with a = weights[r, :, i, j] and the inner products G_j[h,h'] of the heads' vectors at j.
    """
    rows, heads, length, _ = weights.shape
    by_token = vectors.transpose(0, 1)
    products = (by_token @ by_token.transpose(1, 2)).unflatten(0, (rows, length))
    found = weights.new_empty((rows, length, length))
    many = max(1, size_limits(weights.device).contribution_bytes // (4 * max(1, rows * heads * length)))
    for start in range(0, length, many):
        received = weights[..., start : start + many].permute(0, 3, 1, 2).contiguous()
        squares = (products[:, start : start + many] @ received).mul_(received).sum(dim=2)
        found[..., start : start + many] = squares.clamp_(min=0.0).sqrt_().transpose(1, 2)
    return found


def zeroed_distances(
    decomposition: Decomposition, parts: LayerParts, tokens: range, found: torch.Tensor | None
) -> torch.Tensor:
    """Returns by how much each output of the only row changes if the values of one of `tokens` are zero, 1 - cos(h_i, h_i'),
    [length, length] (Mohebbi et al. 2023). The columns of other tokens are those of `found`, zeros if it is None."""
    contexts, before, weights, values = parts.contexts(), parts.before[0], parts.weights[0], parts.values[0]
    length, size = before.shape
    plain = _unit(decomposition.finish(parts.layer, contexts, before))[0]
    found = plain.new_zeros((length, length)) if found is None else found.clone()
    # The largest intermediate is that of the feed-forward layer, about four times as wide.
    many = max(1, size_limits(before.device).contribution_bytes // (4 * 4 * length * size))
    for start in range(tokens.start, tokens.stop, many):
        some = slice(start, min(start + many, tokens.stop))
        lost = torch.einsum("hij,hjs->jihs", weights[:, :, some].to(values.dtype), values[:, some])
        changed = _unit(decomposition.finish(parts.layer, contexts - lost.flatten(2), before))
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
