"""Drops token vectors layer by layer: PoWER-BERT (Goyal et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bertscope_service.checkpoints.steps import Applied, EliminateTokens
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.token_elimination import KEPT_SHARES_KEY, check_kept_shares
from bertscope_service.errors import InvalidArgument, Unsupported


def eliminate_tokens(model: Any, kept_shares: Sequence[float], mask_id: int | None = None) -> Applied:
    """Sets the share of a text's tokens that remain after each layer in a model's config; the weights don't change.

    `mask_id` is the mask token's, None for a tokenizer without one. Raises InvalidArgument for shares that don't fit the
    model, Unsupported for an architecture that this server does not run.
    """
    config = model.config
    if config.model_type not in ARCHITECTURES:
        message = f"tokens of {config.model_type} models can't be dropped; choose another step"
        raise Unsupported(message, "TOKENS_UNSUPPORTED", architecture=config.model_type)
    try:
        shares = check_kept_shares(list(kept_shares), config.num_hidden_layers)
    except ValueError as error:
        message = f"kept_shares {error}; give {config.num_hidden_layers} numbers over 0 to 1 that don't increase"
        raise InvalidArgument("kept_shares", message, "KEPT_SHARES") from error
    setattr(config, KEPT_SHARES_KEY, list(shares))
    config.mask_token_id = mask_id
    description = f"kept {', '.join(f'{share:.0%}' for share in shares)} of a text's tokens after layers 0 to {len(shares) - 1}"
    mean = sum(shares) / len(shares)
    return Applied(EliminateTokens.name, description, {"mean_kept_share": mean, "last_kept_share": shares[-1]})
