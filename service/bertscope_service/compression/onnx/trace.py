"""A transformers model as one function from token ids to all outputs of an encoder, for export by torch.onnx.

Every named value of the exported graph is a point at which it can be cut, so that ONNX Runtime can run a model in steps too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
import transformers

from bertscope_service.encoders.base import Capabilities
from bertscope_service.encoders.onnx.values import (
    ANSWERS,
    GATED,
    HIDDEN,
    LABELS,
    LAST,
    LOGITS,
    MAPS,
    MEAN,
    NEXT_SENTENCE,
    OWN,
    TOKEN_LABELS,
    at,
)
from bertscope_service.encoders.torch.architectures.architecture import Architecture
from bertscope_service.encoders.torch.architectures.attention import attention_maps, factor_of, for_each_head, masked
from bertscope_service.encoders.torch.architectures.own_attention import Heads

NAME = "bertscope_onnx"


@dataclass(slots=True)
class TracedLayer:
    """The inputs of one layer's attention (as LayerRun, always present) and its results.

    keep, uniform: [rows, heads]. constant: [rows, heads, head_size]. average: [rows, 1, length, 1]. The rest is set by the
    attention: own, gated [rows, length, heads, head_size]; mean [rows, heads, head_size]; maps [rows, heads, length, length].
    """

    keep: torch.Tensor
    uniform: torch.Tensor
    constant: torch.Tensor
    average: torch.Tensor
    left: dict[str, torch.Tensor] = field(default_factory=dict)
    layout: None = None
    """Rows are padded."""

    def attend(self, heads: Heads, mask: torch.Tensor) -> torch.Tensor:
        """Computes gated contexts. The maps are a branch of their own, which is removed if nobody observes them."""
        query, value = heads.query, heads.value
        scaling = factor_of(query, heads.scaling, heads.divisor)
        own = fused_attention(query, heads.key, value, mask, scaling, heads.bias)
        mean = (value * self.average).sum(dim=2)
        gated = own * self.keep[:, None, :, None] + (mean * self.uniform[:, :, None] + self.constant)[:, None]
        maps = attention_maps(query, heads.key, mask, scaling, bias=heads.bias)
        self.left = {OWN: own, MEAN: mean, GATED: gated, MAPS: maps}
        return gated


def _traced_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor,
    scaling: float | None = None,
    *,
    run: TracedLayer,
    **_: object,
) -> tuple[torch.Tensor, None]:
    """Adapts a layer's `attend` to the form in which transformers' layers call it."""
    return run.attend(Heads(query, *for_each_head(query, key, value), scaling), attention_mask), None


def register_traced_attention() -> str:
    """Registers the attention of traced layers with transformers, and returns its name."""
    transformers.AttentionInterface.register(NAME, _traced_attention)
    return NAME


def fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor,
    scaling: float | None,
    added: torch.Tensor | None = None,
) -> torch.Tensor:
    """Runs ONNX Runtime's MultiHeadAttention of query, key, value [rows, heads, n, head_size]: [rows, n, heads, head_size].

    added: to the scores before the softmax, broadcastable to [rows, heads, n, n].
    """
    rows, heads, count, size = query.shape
    flat = [part.transpose(1, 2).reshape(rows, part.shape[2], heads * size) for part in (query, key, value)]
    lowest = torch.finfo(query.dtype).min
    if added is None:
        bias = torch.where(mask, 0.0, lowest).to(query.dtype).expand(rows, 1, count, key.shape[2])
    else:
        bias = masked(added, mask).expand(rows, heads, count, key.shape[2])
    context: torch.Tensor = torch.onnx.ops.symbolic(
        "com.microsoft::MultiHeadAttention",
        [*flat, None, None, bias],
        {"num_heads": heads, "scale": size**-0.5 if scaling is None else scaling},
        dtype=query.dtype,
        shape=flat[0].shape,
        version=1,
    )
    return context.reshape(rows, count, heads, size)


class Traced(torch.nn.Module):
    """The function. `names` are the names of its results, in order."""

    def __init__(self, architecture: Architecture, capabilities: Capabilities) -> None:
        super().__init__()
        self.model = architecture.model
        self._architecture = architecture
        count = len(architecture.layers)
        self._with_heads = [bool(architecture.kept.get(layer, (0,))) for layer in range(count)]
        self.names = [at(HIDDEN, layer) for layer in range(count + 1)]
        for layer in range(count):
            self.names += [at(name, layer) for name in (OWN, MEAN, GATED, MAPS) if self._with_heads[layer]]
        self.names += [LAST] + [LOGITS] * capabilities.masked_lm + [LABELS] * capabilities.sequence_head
        self.names += [TOKEN_LABELS] * capabilities.token_classification + [ANSWERS] * capabilities.question_answering
        self.names += [NEXT_SENTENCE] * capabilities.next_sentence

    def forward(
        self,
        ids: torch.Tensor,
        segments: torch.Tensor,
        valid: torch.Tensor,
        positions: torch.Tensor,
        keep: torch.Tensor,
        uniform: torch.Tensor,
        constant: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        """Runs the model.

        ids, segments: int64 [rows, length]. valid: bool, likewise. positions: int64 [rows, n]. keep, uniform: [rows, layers,
        heads]. constant: [rows, layers, heads, head_size].
        """
        architecture, outputs = self._architecture, dict[str, torch.Tensor]()
        hidden = architecture.embed(ids, segments, valid)
        outputs[at(HIDDEN, 0)] = hidden
        real = valid.to(hidden.dtype)
        average = (real / real.sum(dim=1, keepdim=True))[:, None, :, None]
        rows = torch.arange(ids.shape[0], dtype=torch.int64, device=ids.device)[:, None]
        before = hidden
        for layer in range(len(architecture.layers)):
            # Architectures pass it on to the attention function unchanged.
            run: Any = TracedLayer(keep[:, layer], uniform[:, layer], constant[:, layer], average)
            kept = architecture.kept.get(layer)
            if kept is not None:
                index = torch.tensor(kept, dtype=torch.int64, device="cpu")
                run.keep, run.uniform, run.constant = (
                    part.index_select(1, index) for part in (run.keep, run.uniform, run.constant)
                )
            before, hidden = hidden, architecture.run_layer(layer, hidden, valid, run)
            outputs |= {at(name, layer): value for name, value in run.left.items()}
            outputs[at(HIDDEN, layer + 1)] = hidden
        last = self._last(before, hidden, valid, rows, positions)
        outputs[LAST] = last
        if LOGITS in self.names:
            # In two dimensions the product uses the embeddings directly; a transposed copy would take another 94 MB for BERT.
            outputs[LOGITS] = architecture.predict(last.flatten(0, 1))
        if LABELS in self.names:
            outputs[LABELS] = architecture.classify(last if architecture.reads_first else hidden, valid)
        if TOKEN_LABELS in self.names:
            outputs[TOKEN_LABELS] = architecture.label_tokens(hidden)
        if ANSWERS in self.names:
            outputs[ANSWERS] = architecture.answer(hidden)
        if NEXT_SENTENCE in self.names:
            outputs[NEXT_SENTENCE] = architecture.relate(last)
        return tuple(outputs[name] for name in self.names)

    def _last(
        self, before: torch.Tensor, hidden: torch.Tensor, valid: torch.Tensor, rows: torch.Tensor, positions: torch.Tensor
    ) -> torch.Tensor:
        """Returns the last layer's output at some positions; computes only those if a layer can be run in parts."""
        architecture = self._architecture
        layer = len(architecture.layers) - 1
        if not architecture.in_parts or not self._with_heads[layer]:
            return hidden[rows, positions]
        narrow = before[rows, positions]
        inputs = zip(architecture.projections(layer), (narrow, before, before), strict=True)
        parts = [projection(states).unflatten(2, (-1, architecture.head_size)).transpose(1, 2) for projection, states in inputs]
        context = fused_attention(parts[0], parts[1], parts[2], valid[:, None, None, :], None)
        return architecture.finish(layer, context.flatten(2), narrow)


def example(architecture: Architecture) -> tuple[torch.Tensor, ...]:
    """Returns inputs to trace with: two rows of seven tokens, one padded, read at three positions."""
    config, dtype = architecture.model.config, architecture.model.dtype
    ids = torch.arange(14, dtype=torch.int64, device="cpu").reshape(2, 7) % config.vocab_size
    valid = torch.ones((2, 7), dtype=torch.bool, device="cpu")
    valid[1, 5:] = False
    gates = torch.ones((2, len(architecture.layers), architecture.heads), dtype=dtype, device="cpu")
    constant = gates.new_zeros((*gates.shape, architecture.head_size))
    return (
        ids,
        torch.zeros_like(ids),
        valid,
        torch.tensor([[1, 2, 3], [4, 3, 2]], dtype=torch.int64, device="cpu"),
        gates,
        torch.zeros_like(gates),
        constant,
    )


def dynamic_shapes() -> tuple[dict[int, Any], ...]:
    """Returns the dimensions of those inputs that vary."""
    rows, length, count = (torch.export.Dim(name) for name in ("rows", "length", "n"))
    text = {0: rows, 1: length}
    return text, text, text, {0: rows, 1: count}, {0: rows}, {0: rows}, {0: rows}
