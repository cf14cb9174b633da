"""Drops token vectors while a model runs: PoWER-BERT (Goyal et al. 2020, section 3).

After a layer's attention the tokens that received least of it are dropped, so that the rest of the layer and all later layers
run on fewer vectors. The attention that a token receives is summed over the heads and the real tokens that attend.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch

from bertscope_service.encoders.state import BEYOND, KeptTokens, State, to_device, valid_mask

KEPT_SHARES_KEY = "bertscope_kept_shares"
"""The key in config.json: [1.0, 0.7, ...], the share of a text's tokens that continues after each layer."""


def check_kept_shares(shares: object, layers: int) -> tuple[float, ...]:
    """Raises ValueError, with a message for users, unless there is a share for each layer, over 0 to 1, none above the one
    before."""
    if not isinstance(shares, (list, tuple)) or len(shares) != layers:
        raise ValueError(f"is not a list of {layers} shares, one for each layer")
    found = [float(share) for share in shares if type(share) in (int, float) and 0 < share <= 1]
    if len(found) != layers:
        raise ValueError("has an entry that is not a number over 0 to 1")
    if any(later > earlier for earlier, later in pairwise(found)):
        raise ValueError("increases; a token that was dropped does not come back")
    return tuple(found)


def read_kept_shares(config: Any) -> tuple[float, ...]:
    """Returns the shares in a config; empty if it has none. Raises ValueError, with a message for users, if they are
    malformed."""
    written = getattr(config, KEPT_SHARES_KEY, None)
    if written is None:
        return ()
    try:
        return check_kept_shares(written, config.num_hidden_layers)
    except ValueError as error:
        raise ValueError(f"{KEPT_SHARES_KEY} {error}") from error


def all_tokens(ids: torch.Tensor, valid: torch.Tensor | None, tokens: tuple[int, ...], mask_id: int | None) -> KeptTokens:
    """Returns the tokens at the start of a batch: ids int64 [rows, length], first tokens and masks protected."""
    places = torch.arange(ids.shape[1], dtype=torch.int64, device=ids.device).expand(ids.shape)
    protected = places == 0
    if mask_id is not None:
        protected = protected | (ids == mask_id)
    if valid is not None:
        places, protected = places.masked_fill(~valid, BEYOND), protected & valid
    return KeptTokens(places, protected, tokens)


def protect(kept_tokens: KeptTokens, positions: torch.Tensor) -> KeptTokens:
    """Returns the same with more tokens protected: those at `positions` of the texts, int64 [rows, n]."""
    return KeptTokens(
        kept_tokens.places, kept_tokens.protected.scatter(1, find(kept_tokens, positions), value=True), kept_tokens.tokens
    )


def find(kept_tokens: KeptTokens, positions: torch.Tensor) -> torch.Tensor:
    """Returns the present places of the tokens at some positions of the texts, int64 [rows, n]. Raises ValueError for a dropped
    one."""
    index = torch.searchsorted(kept_tokens.places.contiguous(), positions.contiguous())
    index = index.clamp_(max=kept_tokens.places.shape[1] - 1)
    if not bool((kept_tokens.places.gather(1, index) == positions).all()):
        raise ValueError("a token was dropped before its position was named")
    return index


def look_up(kept_tokens: KeptTokens, rows: torch.Tensor, positions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the present places of tokens at positions of the texts, and whether each is still there; rows, positions: int64
    [n]."""
    places = kept_tokens.places[rows]
    index = (places < positions[:, None]).sum(dim=1).clamp_(max=places.shape[1] - 1)
    return index, places.gather(1, index[:, None])[:, 0] == positions


def received(maps: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """Returns the attention that each token receives: maps [rows, heads, length, length] -> float32 [rows, length]."""
    by_query = maps.sum(dim=1)
    if valid is not None:
        by_query = by_query * valid[:, :, None]
    return by_query.sum(dim=1)


def kept_counts(left: KeptTokens, lengths: tuple[int, ...], share: float) -> list[int] | None:
    """Returns how many tokens of each row continue: max(1, round(share * tokens)), and all protected ones; None if all of them
    do."""
    if all(round(share * tokens) >= length for tokens, length in zip(left.tokens, lengths, strict=True)):
        return None
    columns = zip(lengths, left.tokens, left.protected.sum(dim=1).tolist(), strict=True)
    counts = [min(length, max(1, round(share * tokens), protected)) for length, tokens, protected in columns]
    return None if counts == list(lengths) else counts


def choose(
    left: KeptTokens, valid: torch.Tensor | None, scores: torch.Tensor, counts: list[int]
) -> tuple[torch.Tensor, KeptTokens]:
    """Chooses the tokens with the highest scores [rows, length] of each row, in their order; the first of equal ones.

    Returns their places, int64 [rows, n] (anywhere at padding), and the tokens.
    """
    length = scores.shape[1]
    ranked = scores.masked_fill(left.protected, torch.inf)
    if valid is not None:
        ranked = ranked.masked_fill(~valid, -torch.inf)
    ranks = ranked.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    kept = ranks < to_device(torch.tensor(counts, dtype=torch.int64, device="cpu"), scores.device)[:, None]
    slots = (
        torch.where(kept, torch.arange(length, dtype=torch.int64, device=scores.device), length)
        .sort(dim=1)
        .values[:, : max(counts)]
    )
    index = slots.clamp(max=length - 1)
    gone = slots == length
    places = left.places.gather(1, index).masked_fill(gone, BEYOND)
    return index, KeptTokens(places, left.protected.gather(1, index) & ~gone, left.tokens)


def go_on(state: State, hidden: torch.Tensor, left: KeptTokens, counts: list[int]) -> None:
    """Reduces a state to these tokens."""
    state.hidden, state.kept_tokens, state.lengths = hidden, left, tuple(counts)
    state.valid = valid_mask(counts, hidden.device)
