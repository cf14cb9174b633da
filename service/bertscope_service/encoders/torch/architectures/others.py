"""Architectures whose attention transformers computes in their own code, without distances."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import CONVOLUTIONS, Fault, Network
from bertscope_service.encoders.torch.architectures.own_attention import Heads, OwnAttention, parts


class MegatronBert(OwnAttention):
    """Megatron-BERT: normalisations before attention and feed-forward blocks, and one behind the last layer."""

    masked_lm = "MegatronBertForMaskedLM"
    pooler = "MegatronBertPooler"
    norm = None
    read_norm = "ln"
    end_norm = None
    last_norm = "encoder.ln"

    def attention_reads(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        return self.layers[index].attention.ln(hidden)


class RemBert(OwnAttention):
    """RemBERT: embeddings of input and output are apart, and narrower and wider than its layers."""

    masked_lm = "RemBertForMaskedLM"
    base = "rembert"

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.encoder.embedding_hidden_mapping_in(super().embed(ids, segments, valid, places))

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.cls.predictions
        return head.dense, head.activation, head.LayerNorm, head.decoder


class RoFormer(OwnAttention):
    """RoFormer: queries and keys are rotated by their positions (Su et al. 2021)."""

    masked_lm = "RoFormerForMaskedLM"
    base = "roformer"
    embeds_positions = False
    reads_positions = True

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        hidden = super().embed(ids, segments, valid, places)
        return self.encoder.embeddings_project(hidden) if hasattr(self.encoder, "embeddings_project") else hidden

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        heads, own = super().heads_of(index, hidden, places), self.layers[index].attention.self
        table = self.encoder.encoder.embed_positions.weight
        angles = table[None, None, : hidden.shape[1]] if places is None else table[places][:, None]
        rotated = own.apply_rotary_position_embeddings(
            angles, heads.query, heads.key, heads.value if own.rotary_value else None
        )
        return heads._replace(**dict(zip(("query", "key", "value"), rotated, strict=False)))

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class ConvBert(OwnAttention):
    """ConvBERT: beside its heads a layer has as many convolutions, which have no gates (Jiang et al. 2020). Padding is zero to
    them, as the ends of a text are."""

    masked_lm = "ConvBertForMaskedLM"
    base = "convbert"
    unpads = False
    in_stream = False
    unprunable = "each head has a convolution beside it"
    fixed_network = "they may be grouped"
    beside_heads = "convolutions"
    sees_padding = True

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        if config.conv_kernel_size % 2 == 0:
            yield Fault("conv_kernel_size", config.conv_kernel_size, "it must be odd, so that a text keeps its length")

    @classmethod
    def unexportable(cls, settings: Mapping[str, Any]) -> str:
        return CONVOLUTIONS

    @property
    def heads(self) -> int:
        return int(self.layers[0].attention.self.num_attention_heads)

    @property
    def head_size(self) -> int:
        return int(self.layers[0].attention.self.attention_head_size)

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        hidden = super().embed(ids, segments, valid, places)
        return self.encoder.embeddings_project(hidden) if hasattr(self.encoder, "embeddings_project") else hidden

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        own = self.layers[index].attention.self
        read = hidden if valid is None else hidden * valid[:, :, None]
        contexts = self.contexts(index, hidden, valid, run, places)
        beside = convolved(own, read, valid).view(contexts.shape)
        return self.finish(index, torch.cat([contexts, beside], 2).flatten(2), hidden)

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.generator_lm_head(self.model.generator_predictions(hidden))

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


def convolved(own: Any, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """Returns what the convolutions of a ConvBERT layer give, [rows, length, heads * head_size]: each position has kernels of
    its own."""
    rows, length, width = *hidden.shape[:2], own.conv_kernel_size
    keys = own.key_conv_attn_layer(hidden.transpose(1, 2)).transpose(1, 2)
    kernels = own.conv_kernel_layer(torch.multiply(keys, own.query(hidden))).reshape(-1, width, 1).softmax(dim=1)
    values = own.conv_out_layer(hidden)
    if valid is not None:
        values = values * valid[:, :, None]
    values = values.transpose(1, 2).contiguous().unsqueeze(-1)
    near = torch.nn.functional.unfold(values, kernel_size=(width, 1), padding=((width - 1) // 2, 0)).transpose(1, 2)
    near = near.reshape(rows, length, own.all_head_size, width).reshape(-1, own.attention_head_size, width)
    return torch.matmul(near, kernels).reshape(rows, length, own.all_head_size)


class SqueezeBert(OwnAttention):
    """SqueezeBERT: grouped convolutions instead of linear layers, over [rows, size, length] (Iandola et al. 2020)."""

    masked_lm = "SqueezeBertForMaskedLM"
    base = "transformer"
    layer_list = "encoder.layers"
    unpads = False
    in_stream = False
    attention = "attention"
    output = "post_attention.conv1d"
    norm = None
    end_norm = None
    network = Network(("intermediate.conv1d",), "output.conv1d")
    unprunable = "their projections are grouped convolutions"
    fixed_network = "its layers are grouped convolutions"
    beside_heads = "grouped convolutions"

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        read = hidden.permute(0, 2, 1)
        query, key, value = (
            projection(read).unflatten(1, (self.heads, self.head_size)).permute(0, 1, 3, 2)
            for projection in self.projections(index)
        )
        return Heads(query, key, value, divisor=math.sqrt(self.head_size))

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = layer.post_attention(context.permute(0, 2, 1).contiguous(), hidden.permute(0, 2, 1))
        return layer.output(layer.intermediate(attended), attended).permute(0, 2, 1)

    def by_token(self, value: torch.Tensor) -> torch.Tensor:
        return value.permute(0, 2, 1)


class Luke(OwnAttention):
    """LUKE, which reads words here and no entities; positions count from the padding index."""

    masked_lm = "LukeForMaskedLM"
    base = "luke"
    head = "lm_head"
    positions_follow_padding = True
    unread = ("pooler", "entity_embeddings")

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        # Its embeddings can't make up segments that are left out, as others' do.
        segments = torch.zeros_like(ids) if self.segments() < 2 else segments
        positions = None if places is None else self.position_ids(ids, places)
        return self.encoder.embeddings(input_ids=ids, token_type_ids=segments, position_ids=positions)

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder


class Xlm(OwnAttention):
    """XLM, without embeddings of languages; the parts of its layers lie in lists."""

    masked_lm = "XLMWithLMHeadModel"
    base = "transformer"
    layer_list = None
    reads_segments = False
    in_stream = False
    attention = "attention"
    inputs = ("q_lin", "k_lin", "v_lin")
    output = "attention.out_lin"
    norm: str | None = "norm1"
    end_norm: str | None = "norm2"
    network = Network(("ffn.lin1",), "ffn.lin2")
    unprunable = "the parts of their layers lie in lists"
    fixed_layers = "the parts of its layers lie in lists"
    fixed_network = "its config can't name their number"

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        allowed: dict[str, tuple[object, str]] = {
            "asm": (False, "an adaptive softmax gives no logits"),
            "causal": (False, "bertscope hosts encoders"),
        }
        allowed["is_encoder"] = (True, "bertscope hosts encoders")
        allowed["summary_type"] = ("first", "classification heads are read at the first token")
        for key, (value, why) in allowed.items():
            if getattr(config, key) != value:
                yield Fault(key, getattr(config, key), f"allowed is {value!r}: {why}")

    def find_layers(self) -> list[Any]:
        base = self.encoder
        lists = zip(base.attentions, base.layer_norm1, base.ffns, base.layer_norm2, strict=True)
        return [parts(attention=one, norm1=norm1, ffn=ffn, norm2=norm2) for one, norm1, ffn, norm2 in lists]

    @property
    def before_blocks(self) -> bool:
        """True if normalisations come before the blocks."""
        return bool(getattr(self.model.config, "pre_norm", False))

    @property
    def activation_size(self) -> int:
        return 4 * int(self.model.config.hidden_size)

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        base = self.encoder
        table = base.position_embeddings.weight
        return base.layer_norm_emb(base.embeddings(ids) + (table[None, : ids.shape[1]] if places is None else table[places]))

    def attention_reads(self, index: int, hidden: torch.Tensor) -> torch.Tensor:
        return self.layers[index]["norm1"](hidden) if self.before_blocks else hidden

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        heads = super().heads_of(index, hidden, places)
        return Heads(heads.query / math.sqrt(self.head_size), heads.key, heads.value, scaling=1.0)

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = hidden + layer["attention"].out_lin(context)
        if self.before_blocks:
            return attended + layer["ffn"](layer["norm2"](attended))
        attended = layer["norm1"](attended)
        return layer["norm2"](attended + layer["ffn"](attended))

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.layers[index]["ffn"](attended)
        return added

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.pred_layer.proj(hidden)

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.sequence_summary(hidden)


class Flaubert(Xlm):
    """FlauBERT: XLM in French; in some sizes normalisations come before the blocks."""

    masked_lm = "FlaubertWithLMHeadModel"
    norm = None
    end_norm = None
