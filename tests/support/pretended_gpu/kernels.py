"""Kernels that a GPU has and a CPU lacks, by their rules."""

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import torch

DTYPES = [torch.float16, torch.bfloat16]
"""What flash attention takes. A test that compares to the last digits adds float32."""


def varlen_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    query_starts: torch.Tensor,
    key_starts: torch.Tensor,
    longest_query: int,
    longest_key: int,
    causal: bool = False,
    scale: float | None = None,
    window: list[int] | None = None,
    *_: object,
    **__: object,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Flash attention within sequences of different lengths: queries, keys and values are [tokens, heads, head_size]. What lies
    behind the last sequence is not computed."""
    if query.dtype not in DTYPES:
        raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
    if query_starts.dtype != torch.int32 or key_starts.dtype != torch.int32:
        raise RuntimeError("cu_seqlens must have dtype int32")
    if any(one.stride(-1) != 1 for one in (query, key, value)):
        raise RuntimeError("Input tensor must have contiguous last dimension")
    output = torch.full_like(query, torch.nan)
    starts = list(zip(query_starts.tolist(), key_starts.tolist(), strict=True))
    left, right = window or (-1, -1)
    for (first, first_key), (end, end_key) in itertools.pairwise(starts):
        if first == end:
            continue
        if end - first > longest_query or end_key - first_key > longest_key:
            raise RuntimeError("a sequence is longer than the longest was said to be")
        places, others = torch.arange(end - first)[:, None], torch.arange(end_key - first_key)
        near = torch.ones(len(places), len(others), dtype=torch.bool)
        if left >= 0:
            near &= (others >= places - left) & (others <= places + right)
        scores = torch.einsum("qhd,khd->hqk", query[first:end].float(), key[first_key:end_key].float())
        factor = query.shape[-1] ** -0.5 if scale is None else scale
        maps = (scores * factor).masked_fill(~near, -torch.inf).softmax(-1)
        output[first:end] = torch.einsum("hqk,khd->qhd", maps, value[first_key:end_key].float()).to(query.dtype)
    return output, query.new_zeros((query.shape[1], len(query)), dtype=torch.float32), torch.zeros(2, dtype=torch.uint64)


KERNELS: Mapping[str, Callable[..., Any]] = {"torch_attn._varlen_attn.default": varlen_attention}
"""By the names of PyTorch's operations."""
