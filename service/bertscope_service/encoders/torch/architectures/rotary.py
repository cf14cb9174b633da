"""Architectures whose queries and keys are rotated by their positions (Su et al. 2021)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import torch

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architectures.architecture import Architecture, Fault, Network
from bertscope_service.encoders.torch.architectures.own_attention import OfLength
from bertscope_service.encoders.unpadded import Layout

QUERY_KEY_VALUE: tuple[str, ...] = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
WINDOWS = ("full_attention", "sliding_attention")


class Rotary(Architecture):
    """Layers get the rotations as `position_embeddings`; `rotations` is the path of their module below the base."""

    rotations = "rotary_emb"
    layer_list = "layers"
    reads_positions = True
    in_parts = False

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        if size % 2:
            yield Fault("hidden_size / num_attention_heads", size, "positions rotate pairs of numbers, so it must be even")

    def rotate(self, hidden: torch.Tensor, places: torch.Tensor | None, *kind: str) -> Any:
        """Returns the rotations of positions, for layers of a kind if the architecture has several."""

        def made() -> Any:
            every = torch.arange(hidden.shape[1], dtype=torch.int64, device=hidden.device)[None]
            return self.encoder.get_submodule(self.rotations)(hidden, every if places is None else places, *kind)

        # While a model is exported, the length is a symbol.
        return self.known_rotations[kind].get(hidden, made, places) if isinstance(hidden.shape[1], int) else made()

    @cached_property
    def known_rotations(self) -> defaultdict[tuple[str, ...], OfLength[Any]]:
        """The rotations, for layers of each kind."""
        return defaultdict(OfLength)

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        mask = None if valid is None else valid[:, None, None, :]
        rotary = self.rotate(hidden, places)
        return self.ended(index, self.layers[index](hidden, attention_mask=mask, position_embeddings=rotary, run=run))


class ModernBert(Rotary):
    """ModernBERT: most layers attend only within a window of `sliding_window` tokens to each side."""

    masked_lm = "ModernBertForMaskedLM"
    base = "model"
    embeds_positions = False
    reads_segments = False
    attention = "attn"
    inputs = ("Wqkv",)
    fused = 3
    output = "attn.Wo"
    norm = None
    end_norm = None
    last_norm = "final_norm"
    network = Network(("mlp.Wi",), "mlp.Wo", fused=2)
    first_layer_differs = True

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        types = config.layer_types
        if len(types) != config.num_hidden_layers:
            yield Fault("the length of layer_types", len(types), f"there are {config.num_hidden_layers} layers")
        for strange in [one for one in types if one not in WINDOWS][:1]:
            yield Fault("an entry of layer_types", strange, f"allowed are {' and '.join(WINDOWS)}")
        if config.classifier_pooling not in ("cls", "mean"):
            yield Fault("classifier_pooling", config.classifier_pooling, "allowed are cls and mean")

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        layer = self.layers[index]
        mask = None if valid is None else valid[:, None, None, :]
        if layer.attention_type == "sliding_attention":
            window = self.model.config.sliding_window
            if run.layout is not None and run.layout.varlen:
                run = replace(run, layout=replace(run.layout, window=window))
            else:
                mask = self._near(hidden, valid, run.layout, places)
        rotary = self.rotate(hidden, places, layer.attention_type)
        return self.ended(index, layer(hidden, attention_mask=mask, position_embeddings=rotary, run=run))

    def _near(
        self, hidden: torch.Tensor, valid: torch.Tensor | None, layout: Layout | None, places: torch.Tensor | None
    ) -> torch.Tensor:
        """Returns the mask of keys in the window of a query, computed once for a batch; see `near_tokens`."""
        tokens, window = None if layout is None else layout.keys, self.model.config.sliding_window

        def made() -> torch.Tensor:
            if tokens is not None:
                return near_tokens(window, tokens.valid, hidden, None, tokens.width)
            return near_tokens(window, valid, hidden, places, hidden.shape[1])

        # While a model is exported, the length is a symbol.
        return self._known_near.get(hidden, made, valid, tokens, places) if isinstance(hidden.shape[1], int) else made()

    @cached_property
    def _known_near(self) -> OfLength[torch.Tensor]:
        return OfLength()

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        added: torch.Tensor = layer.mlp(layer.mlp_norm(attended))
        return added

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.head
        return head.dense, head.act, head.norm, self.model.decoder

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.decoder(self.model.head(hidden))

    def before_token_head(self, hidden: torch.Tensor) -> torch.Tensor:
        read: torch.Tensor = self.model.head(hidden)
        return read

    def answer(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.label_tokens(hidden)

    @property
    def reads_first(self) -> bool:
        return bool(self.model.config.classifier_pooling == "cls")

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        pooled = hidden[:, 0] if self.reads_first else mean_of_real(hidden, valid)
        return self.model.classifier(self.model.head(pooled))


def near_tokens(
    window: int, valid: torch.Tensor | None, hidden: torch.Tensor, places: torch.Tensor | None, length: int
) -> torch.Tensor:
    """Returns the mask of keys at most `window` tokens from a query, bool [rows or 1, 1, length, length], for padded rows on
    the device of `hidden`; `valid` and `places` as in `run_layer`."""
    if places is None:
        places = torch.arange(length, dtype=torch.int64, device=hidden.device)[None]
    near = (places[:, :, None] - places[:, None, :]).abs() <= window
    # A padded position may have no real token in its window; it attends to all of them, since a row of the map
    # that is masked everywhere would be NaN and spread.
    return near[:, None] if valid is None else valid[:, None, None, :] & (near | ~valid[:, :, None])[:, None]


def mean_of_real(hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
    """Returns the mean over each row's real positions: [rows, length, size] -> [rows, size]."""
    if valid is None:
        return hidden.mean(dim=1)
    return (hidden * valid[:, :, None]).sum(dim=1) / valid.sum(dim=1, keepdim=True)


class GatedRotary(Rotary):
    """Separate projections without fused weights, and gated feed-forward networks."""

    attention = "self_attn"
    inputs = ("q_proj", "k_proj", "v_proj")
    output = "self_attn.o_proj"
    network = Network(("mlp.gate_proj", "mlp.up_proj"), "mlp.down_proj")

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        added: torch.Tensor = layer.mlp(attended if self.read_norm is None else layer.get_submodule(self.read_norm)(attended))
        return added


class NomicBert(GatedRotary):
    """NomicBERT: normalisations behind the blocks; no biases in layers."""

    masked_lm = "NomicBertForMaskedLM"
    base = "nomic_bert"
    norm = "post_attention_layernorm"
    end_norm = "post_mlp_layernorm"
    former_names: ClassVar[Mapping[str, str]] = {
        r"^bert\.": "nomic_bert.",
        r"encoder\.layers": "layers",
        "emb_ln": "embeddings.LayerNorm",
        r"attn\.out_proj": "self_attn.o_proj",
        "fc11": "up_proj",
        "fc12": "gate_proj",
        "fc2": "down_proj",
        "norm1": "post_attention_layernorm",
        "norm2": "post_mlp_layernorm",
    }
    former_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {"attn.Wqkv": QUERY_KEY_VALUE}

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.cls.predictions
        return head.transform.dense, head.transform.transform_act_fn, head.transform.layer_norm, head.decoder


class Gte(NomicBert):
    """GTE: NomicBERT with biases, and segments in some models only."""

    masked_lm = "GteForMaskedLM"
    base = "gte"
    head = "lm_head"
    former_names: ClassVar[Mapping[str, str]] = {
        r"^new\.": "gte.",
        r"encoder\.layer\.": "layers.",
        r"attention\.o_proj": "self_attn.o_proj",
        "attn_ln": "post_attention_layernorm",
        "mlp_ln": "post_mlp_layernorm",
        r"lm_head\.norm": "lm_head.layer_norm",
    }
    former_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "attention.qkv_proj": QUERY_KEY_VALUE,
        "mlp.up_gate_proj": ("mlp.up_proj", "mlp.gate_proj"),
    }

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        return (fault for fault in super().faults(config) if fault.key != "type_vocab_size")

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder


class JinaEmbeddingsV3(Gte):
    """Jina embeddings v3, without the adapters of its tasks: XLM-RoBERTa's head on rotary layers."""

    masked_lm = "JinaEmbeddingsV3ForMaskedLM"
    base = "roberta"
    network = Network(("mlp.fc1",), "mlp.fc2")
    former_names: ClassVar[Mapping[str, str]] = {
        "emb_ln": "embeddings.LayerNorm",
        r"encoder\.layers": "layers",
        r"mixer\.out_proj": "self_attn.o_proj",
        "norm1": "post_attention_layernorm",
        "norm2": "post_mlp_layernorm",
    }
    former_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {"mixer.Wqkv": QUERY_KEY_VALUE}

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class EuroBert(GatedRotary):
    """EuroBERT: normalisations before the blocks, by root mean square; several heads may share keys and values. The masked-LM
    head is one matrix."""

    masked_lm = "EuroBertForMaskedLM"
    base = "model"
    head = "lm_head"
    reads_segments = False
    in_stream = False
    norm = None
    end_norm = None
    last_norm = "norm"
    unprunable = "several heads may share keys and values"

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        shared = config.num_key_value_heads
        if not shared or config.num_attention_heads % shared:
            yield Fault("num_key_value_heads", shared, f"it must divide num_attention_heads, {config.num_attention_heads}")
        if config.classifier_pooling not in ("bos", "mean", "late"):
            yield Fault("classifier_pooling", config.classifier_pooling, "allowed are bos, mean and late")

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.embed_tokens(ids)

    @property
    def reads_first(self) -> bool:
        return bool(self.model.config.classifier_pooling == "bos")

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        model = self.model
        if self.model.config.classifier_pooling == "late":
            return mean_of_real(model.classifier(model.activation(model.dense(hidden))), valid)
        pooled = hidden[:, 0] if self.reads_first else mean_of_real(hidden, valid)
        return model.classifier(model.activation(model.dense(pooled)))
