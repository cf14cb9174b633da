"""Implements the attention function that transformers' layers call: gates for every row, maps for watchers.

One function serves every architecture: its keyword arguments reach it through the layer's own forward.
"""

from __future__ import annotations

from dataclasses import replace

import torch
import transformers

from bertscope_service.encoders.gating import LayerRun, MapMemory
from bertscope_service.encoders.torch.architectures.exact_attention import exact_attention
from bertscope_service.encoders.unpadded import Layout, varlen_attention

NAME = "bertscope"


def register_attention() -> str:
    """Registers this attention with transformers, whose code of models is imported now, and returns its name."""
    transformers.AttentionInterface.register(NAME, _layer_attention)
    return NAME


def _layer_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    run: LayerRun,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Adapts `gated_attention` to the form in which transformers' layers call it."""
    key, value = for_each_head(query, key, value)
    return gated_attention(query, key, value, attention_mask, scaling, run=run), None


def for_each_head(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns keys and values of every head, where several share theirs (grouped-query attention)."""
    shared = query.shape[1] // max(1, key.shape[1])
    if shared < 2:
        return key, value
    return key.repeat_interleave(shared, dim=1), value.repeat_interleave(shared, dim=1)


def gated_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    *,
    run: LayerRun,
    divisor: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns the gated context of every head: [rows, n, heads, head_size].

    query: [rows, heads, n, head_size]; key, value: [rows, heads, length, head_size]. attention_mask: bool, True where a key may
    be attended to, broadcastable to the maps; None if all may. divisor, bias: see `own_attention.Heads`. With a layout of the
    run, queries, keys and values are as it says, there is no bias, and the contexts lie as the queries do.
    """
    if run.layout is not None:
        return _unpadded_attention(query, key, value, attention_mask, scaling, run=run, layout=run.layout, divisor=divisor)
    if run.given is not None:
        return run.given
    if run.on_values is not None:
        run.on_values(value)
    if run.exact:
        if run.on_maps is not None:
            maps = attention_maps(query, key, attention_mask, scaling, run.memory, divisor=divisor, bias=bias)
            run.on_maps(_blocked_maps(maps, run))
        context = exact_attention(query, key, value, attention_mask, factor_of(query, scaling, divisor), bias)
    elif run.on_maps is None:
        mask = attention_mask if bias is None else masked(bias.to(query.dtype), attention_mask)
        scaling = None if scaling is None and divisor is None else factor_of(query, scaling, divisor)
        context = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, scale=scaling)
    else:
        maps = attention_maps(query, key, attention_mask, scaling, run.memory, divisor=divisor, bias=bias)
        maps = _blocked_maps(maps, run)
        run.on_maps(maps)
        context = torch.matmul(maps.to(value.dtype), value)
        del maps
    if run.blocked is not None and (run.exact or run.on_maps is None):
        context = _blocked_contexts(context, query, key, value, attention_mask, scaling, run, divisor, bias)
    if run.on_context is not None:
        run.on_context(context)
    mean = None if run.uniform is None or run.average is None else (value * run.average).sum(dim=2, keepdim=True)
    return run.gate(context, mean).transpose(1, 2).contiguous()


def _blocked_maps(maps: torch.Tensor, run: LayerRun) -> torch.Tensor:
    """Returns the maps of a batch with those of some rows as `run.blocked` leaves them."""
    if run.blocked is None:
        return maps
    rows = run.blocked.rows
    return maps.index_put((rows,), run.block(maps[rows]))


def _blocked_contexts(
    context: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None,
    run: LayerRun,
    divisor: float | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """Returns contexts [rows, heads, length, head_size], those of rows with blocked attention computed anew."""
    if run.blocked is None:
        return context
    rows, whole = run.blocked.rows, query.shape[0]
    mask, bias = (one if one is None or len(one) != whole else one[rows] for one in (attention_mask, bias))
    maps = run.block(attention_maps(query[rows], key[rows], mask, scaling, divisor=divisor, bias=bias))
    return context.index_put((rows,), torch.matmul(maps.to(value.dtype), value[rows]))


def _unpadded_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None,
    *,
    run: LayerRun,
    layout: Layout,
    divisor: float | None,
) -> torch.Tensor:
    """Returns the gated contexts of tokens that lie as a layout says, [1, tokens, heads, head_size] or [rows, n, heads,
    head_size]. `attention_mask` is as for padded rows."""
    shape = (query.shape[0], query.shape[2])
    queries, keys, values = (tensor.transpose(1, 2).flatten(0, 1) for tensor in (query, key, value))
    if layout.varlen and attention_mask is None:
        factor = factor_of(query, scaling, divisor)
        context = varlen_attention(queries, keys, values, layout.queries, layout.keys, factor, layout.window)
        return _gated_tokens(context, values, run, layout).unflatten(0, shape)
    if attention_mask is None and layout.keys.valid is not None:
        attention_mask = layout.keys.valid[:, None, None, :]
    query = layout.queries.pad(queries).transpose(1, 2)
    key, value = (layout.keys.pad(tensor).transpose(1, 2) for tensor in (keys, values))
    padded = gated_attention(query, key, value, attention_mask, scaling, run=replace(run, layout=None), divisor=divisor)
    return layout.queries.unpad(padded).unflatten(0, shape)


def _gated_tokens(context: torch.Tensor, values: torch.Tensor, run: LayerRun, layout: Layout) -> torch.Tensor:
    """Returns contexts [tokens, heads, head_size] after the gates of their rows; `values` are those of the layout's keys."""
    if run.keep is None:
        return context
    gated = context * layout.queries.of_rows(run.keep)[:, :, None]
    added = run.constant
    if run.uniform is not None and run.average is not None:
        mean = (layout.keys.pad(values).transpose(1, 2) * run.average).sum(dim=2) * run.uniform[:, :, None]
        added = mean if added is None else mean + added
    return gated if added is None else gated + layout.queries.of_rows(added)


def attention_maps(
    query: torch.Tensor,
    key: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None,
    memory: MapMemory | None = None,
    *,
    divisor: float | None = None,
    bias: torch.Tensor | None = None,
) -> torch.Tensor:
    """Returns softmax(Q K^T * scaling + bias), float32 whatever the model computes in, so that rows sum closely to 1.

    They are in `memory`, if that is given and gets them faster. A division by `divisor` replaces the product with `scaling`,
    for architectures that divide: the last bits differ.
    """
    factor = factor_of(query, scaling, divisor)
    if memory is not None and query.device.type == "cpu" and query.dtype is torch.float32 and not torch.is_grad_enabled():
        maps = memory.take((*query.shape[:3], key.shape[2]))
        torch.matmul(query, key.transpose(2, 3), out=maps)
        maps = maps.mul_(factor) if divisor is None else maps.div_(divisor)
        if bias is not None:
            maps += bias
        if attention_mask is not None:
            maps.masked_fill_(~attention_mask, torch.finfo(maps.dtype).min)
        return torch.softmax(maps, dim=-1, out=maps)
    if query.dtype is torch.float16:
        # Scaled before the product, or a long dot product would leave the range of fp16.
        scores = torch.matmul(query * factor, key.transpose(2, 3))
    else:
        scores = torch.matmul(query, key.transpose(2, 3))
        scores = scores.mul_(factor) if divisor is None else scores.div_(divisor)
    if bias is not None:
        scores = scores + bias
    if attention_mask is not None:
        scores.masked_fill_(~attention_mask, torch.finfo(scores.dtype).min)
    return torch.softmax(scores, dim=-1, dtype=torch.float32)


def factor_of(query: torch.Tensor, scaling: float | None, divisor: float | None) -> float:
    """Returns the number that products of queries and keys are multiplied by."""
    if divisor is not None:
        return 1 / divisor
    return float(query.shape[-1] ** -0.5) if scaling is None else scaling


def masked(bias: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Returns the bias of scores, as low as possible where the mask is False."""
    return bias if mask is None else torch.where(mask, bias, torch.finfo(bias.dtype).min)
