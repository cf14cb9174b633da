"""Architectures whose scores depend on the distance of two tokens: MPNet, and DeBERTa in both versions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

import torch
from transformers.models import deberta_v2

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import CONVOLUTIONS, Fault
from bertscope_service.encoders.torch.architectures.own_attention import Heads, OfLength, OwnAttention, distances

BUCKETS = 32
"""Buckets of distances in MPNet, whatever its config says."""


class MpNet(OwnAttention):
    """MPNet: all layers share one bias of the scores, by distance (Song et al. 2020)."""

    masked_lm = "MPNetForMaskedLM"
    base = "mpnet"
    unpads = False
    head = "lm_head"
    reads_segments = False
    positions_follow_padding = True
    attention = "attention.attn"
    inputs = ("q", "k", "v")
    output = "attention.attn.o"
    norm = "attention.LayerNorm"

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        if config.pad_token_id != 1:
            yield Fault("pad_token_id", config.pad_token_id, "positions count from behind token 1, so it must be 1")
        if config.relative_attention_num_buckets < BUCKETS:
            yield Fault("relative_attention_num_buckets", config.relative_attention_num_buckets, f"it must be {BUCKETS}")

    @cached_property
    def known_bias(self) -> OfLength[torch.Tensor]:
        """The bias of the last length, of all heads."""
        return OfLength()

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        encoder = self.encoder.encoder

        def made() -> torch.Tensor:
            buckets = encoder.relative_position_bucket(-distances(hidden, places), num_buckets=BUCKETS)
            found: torch.Tensor = encoder.relative_attention_bias(buckets).permute(0, 3, 1, 2)
            return found

        # While a model is exported, the length is a symbol.
        bias = self.known_bias.get(hidden, made) if places is None and isinstance(hidden.shape[1], int) else made()
        kept = self.kept.get(index)
        bias = bias if kept is None else torch.stack([bias[:, head] for head in kept], dim=1)
        return super().heads_of(index, hidden, places)._replace(bias=bias)

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = layer.attention.LayerNorm(layer.attention.attn.o(context) + hidden)
        return layer.output(layer.intermediate(attended), attended)

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class DebertaV2(OwnAttention):
    """DeBERTa v2 and v3: contents and distances attend to each other (He et al. 2021, section 3.1)."""

    masked_lm = "DebertaV2ForMaskedLM"
    base = "deberta"
    unpads = False
    inputs: tuple[str, ...] = ("query_proj", "key_proj", "value_proj")
    unprunable = "their relative positions have weights of each head"
    first_layer_differs = True

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        # Most have no segments.
        yield from (fault for fault in super().faults(config) if fault.key != "type_vocab_size")
        width = getattr(config, "conv_kernel_size", 0)
        if width and width % 2 == 0:
            yield Fault("conv_kernel_size", width, "it must be odd, so that a text keeps its length")

    @classmethod
    def unexportable(cls, settings: Mapping[str, Any]) -> str:
        return CONVOLUTIONS if settings.get("conv_kernel_size") else ""

    @property
    def in_stream(self) -> bool:  # type: ignore[override]
        return bool(self.model.config.legacy) and self.convolution is None

    @property
    def convolution(self) -> Any:
        """The convolution beside layer 0, None without one."""
        return self.encoder.encoder.conv

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        return None if index == 0 and self.convolution is not None else super().norm_at_end(index)

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.embeddings(input_ids=ids, token_type_ids=segments, mask=valid)

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        own = self.layers[index].attention.self
        query, key, value = (self.by_head(projection(hidden)) for projection in self.projections(index))
        scale = math.sqrt(query.shape[-1] * (1 + ("c2p" in own.pos_att_type) + ("p2c" in own.pos_att_type)))
        bias = self.bias(own, query, key, scale, self.pairs(own, hidden, places)) if own.relative_attention else None
        return Heads(query, key / scale, value, scaling=1.0, bias=bias)

    @cached_property
    def known_pairs(self) -> OfLength[torch.Tensor]:
        """The result of `pairs` for the last length."""
        return OfLength()

    def pairs(self, own: Any, hidden: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
        """Returns the row of the distances' embeddings that a query reads for a key, int64 [rows or 1, 1, n, n]; the key reads
        the transposed one."""

        def made() -> torch.Tensor:
            span = self.span(own, hidden.shape[1])
            return torch.clamp(self.buckets(own, distances(hidden, places)) + span, 0, 2 * span - 1)[:, None]

        # While a model is exported, the length is a symbol.
        return self.known_pairs.get(hidden, made) if places is None and isinstance(hidden.shape[1], int) else made()

    def span(self, own: Any, length: int) -> int:
        """Returns the number of distances to one side that have an embedding."""
        return int(own.pos_ebd_size)

    def buckets(self, own: Any, away: torch.Tensor) -> torch.Tensor:
        """Returns distances, or the numbers of their buckets."""
        if own.position_buckets > 0 and own.max_relative_positions > 0:
            in_buckets = deberta_v2.modeling_deberta_v2.make_log_bucket_position
            away = in_buckets(away, own.position_buckets, own.max_relative_positions).to(torch.int64)
        return away

    def bias(self, own: Any, query: torch.Tensor, key: torch.Tensor, scale: float, pairs: torch.Tensor) -> torch.Tensor:
        """Returns the scores between contents and distances, [rows, heads, n, n]."""
        embedded = self.encoder.encoder.get_rel_embedding()[None, : 2 * own.pos_ebd_size]
        found = []
        if "c2p" in own.pos_att_type:
            read = self.by_head((own.key_proj if own.share_att_key else own.pos_key_proj)(embedded))
            found.append(by_distance(torch.matmul(query, read.transpose(2, 3)), pairs) / scale)
        if "p2c" in own.pos_att_type:
            asked = self.by_head((own.query_proj if own.share_att_key else own.pos_query_proj)(embedded))
            scores = by_distance(torch.matmul(key, asked.transpose(2, 3)), pairs.transpose(2, 3))
            found.append(scores.transpose(2, 3) / scale)
        return sum(found[1:], found[0]) if found else query.new_zeros((1, 1, 1, 1))

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        output = super().run_layer(index, hidden, valid, run, places)
        if index or self.convolution is None:
            return output
        real = torch.ones(hidden.shape[:2], dtype=torch.int64, device=hidden.device) if valid is None else valid.long()
        return self.convolution(hidden, output, real)

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = layer.attention.output(context, hidden)
        return layer.output(layer.intermediate(attended), attended)

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        if self.model.config.legacy:
            return self.model.cls(hidden)
        return self.model.lm_predictions(hidden, self.encoder.embeddings.word_embeddings)

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(self.model.pooler(hidden))


def by_distance(scores: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns scores of embeddings of distances, [rows, heads, n, 2 * span], as those of pairs, [rows, heads, n, n]."""
    return torch.gather(scores, -1, pairs.expand(*scores.shape[:3], pairs.shape[-1]))


class Deberta(DebertaV2):
    """DeBERTa v1: queries, keys and values are one matrix, head after head, and distances have no buckets."""

    masked_lm = "DebertaForMaskedLM"
    inputs = ("in_proj",)
    in_stream = False
    norm = None
    end_norm = None
    convolution = None
    first_layer_differs = False

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        if getattr(config, "talking_head", False):
            yield Fault("talking_head", True, "heads that mix their maps can't be observed one by one")

    def heads_of(self, index: int, hidden: torch.Tensor, places: torch.Tensor | None) -> Heads:
        own = self.layers[index].attention.self
        together = own.in_proj(hidden).view(*hidden.shape[:2], -1, 3 * self.head_size).transpose(1, 2)
        query, key, value = together.chunk(3, dim=-1)
        scale = math.sqrt(self.head_size * (1 + len(own.pos_att_type)))
        query = (query + self.by_head(own.q_bias[None, None])) / scale
        bias = self.bias(own, query, key, scale, self.pairs(own, hidden, places)) if own.relative_attention else None
        return Heads(query, key, value + self.by_head(own.v_bias[None, None]), scaling=1.0, bias=bias)

    def span(self, own: Any, length: int) -> int:
        positions = int(own.max_relative_positions)
        # While a model is exported, the length is a symbol; all positions give the same scores then.
        return min(length, positions) if isinstance(length, int) else positions

    def buckets(self, own: Any, away: torch.Tensor) -> torch.Tensor:
        return away

    def bias(self, own: Any, query: torch.Tensor, key: torch.Tensor, scale: float, pairs: torch.Tensor) -> torch.Tensor:
        positions, span = own.max_relative_positions, self.span(own, query.shape[2])
        embedded = self.encoder.encoder.get_rel_embedding()[None, positions - span : positions + span]
        found = []
        if "c2p" in own.pos_att_type:
            read = self.by_head(own.pos_proj(embedded))
            found.append(by_distance(torch.matmul(query, read.transpose(2, 3)), pairs))
        if "p2c" in own.pos_att_type:
            asked = self.by_head(own.pos_q_proj(embedded)) / scale
            scores = by_distance(torch.matmul(key, asked.transpose(2, 3)), pairs.transpose(2, 3))
            found.append(scores.transpose(2, 3))
        return sum(found[1:], found[0]) if found else query.new_zeros((1, 1, 1, 1))
