"""BERT and its closest kin: absolute positions, and normalisations behind attention and feed-forward blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from bertscope_service.encoders.torch.architectures.architecture import MAX_LAYERS, SHARED_WEIGHTS, Architecture, Fault, Network


class Bert(Architecture):
    """BERT itself."""

    pooler = "BertPooler"


class Ernie(Architecture):
    """ERNIE 2.0 and 3.0: BERT with embeddings of the pre-training task, which is task 0 here, as in transformers."""

    masked_lm = "ErnieForMaskedLM"
    base = "ernie"
    pooler = "ErniePooler"


class RocBert(Architecture):
    """RoCBERT: BERT with embeddings of the shape and the sound of characters, which are number 0 here for every token, as in
    transformers where they are not given."""

    masked_lm = "RoCBertForMaskedLM"
    base = "roc_bert"


class DistilBert(Architecture):
    """DistilBERT: no segments; the head's parts lie beside each other."""

    masked_lm = "DistilBertForMaskedLM"
    base = "distilbert"
    layer_list = "transformer.layer"
    reads_segments = False
    attention = "attention"
    inputs = ("q_lin", "k_lin", "v_lin")
    output = "attention.out_lin"
    norm = "sa_layer_norm"
    end_norm = "output_layer_norm"
    network = Network(("ffn.lin1",), "ffn.lin2", size="hidden_dim")

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = layer.sa_layer_norm(layer.attention.out_lin(context) + hidden)
        return layer.output_layer_norm(layer.ffn(attended) + attended)

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.layers[index].ffn(attended)
        return added

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        model = self.model
        return model.vocab_transform, model.activation, model.vocab_layer_norm, model.vocab_projector

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        model = self.model
        return model.vocab_projector(model.vocab_layer_norm(model.activation(model.vocab_transform(hidden))))

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(torch.relu(self.model.pre_classifier(hidden[:, 0])))


class Albert(Architecture):
    """ALBERT: layers come in groups, and a group runs many times; each run is a layer of its own here."""

    masked_lm = "AlbertForMaskedLM"
    base = "albert"
    head = "predictions"
    layer_list = None
    fixed_layers = "they are runs of one set of weights"
    attention = "attention"
    output = "attention.dense"
    norm = "attention.LayerNorm"
    end_norm = "full_layer_layer_norm"
    network = Network(("ffn",), "ffn_output")
    unprunable = SHARED_WEIGHTS

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        groups, layers = config.num_hidden_groups, config.num_hidden_layers
        if groups > layers:
            yield Fault("num_hidden_groups", groups, f"there are {layers} layers")
        if layers * config.inner_group_num > MAX_LAYERS:
            yield Fault("inner_group_num", config.inner_group_num, f"allowed are up to {MAX_LAYERS} layers in all")

    def find_layers(self) -> list[Any]:
        config, groups = self.model.config, self.encoder.encoder.albert_layer_groups
        runs = config.num_hidden_layers
        return [layer for run in range(runs) for layer in groups[run * config.num_hidden_groups // runs].albert_layers]

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.encoder.embedding_hidden_mapping_in(super().embed(ids, segments, valid, places))

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        layer = self.layers[index]
        attended = layer.attention.LayerNorm(hidden + layer.attention.dense(context))
        return layer.full_layer_layer_norm(layer.ff_chunk(attended) + attended)

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = self.layers[index].ff_chunk(attended)
        return added

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.predictions
        return head.dense, head.activation, head.LayerNorm, head.decoder

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(self.encoder.pooler_activation(self.encoder.pooler(hidden[:, 0])))


class Electra(Architecture):
    """ELECTRA's generator; its embeddings are narrower than its layers."""

    masked_lm = "ElectraForMaskedLM"
    base = "electra"

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        hidden = super().embed(ids, segments, valid, places)
        return self.encoder.embeddings_project(hidden) if hasattr(self.encoder, "embeddings_project") else hidden

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.generator_predictions
        return head.dense, head.activation, head.LayerNorm, self.model.generator_lm_head

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.generator_lm_head(self.model.generator_predictions(hidden))

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class MobileBert(Architecture):
    """MobileBERT: bottlenecks lie inside the layers, and each embedding is made of three neighbouring ones."""

    masked_lm = "MobileBertForMaskedLM"
    base = "mobilebert"
    pooler = "MobileBertPooler"
    reads_weights = frozenset({"MobileBertLMPredictionHead"})
    unpads = False
    in_parts = False
    in_stream = False
    sees_padding = True
    norm = None
    more_networks = "ffn"

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        size = config.intra_bottleneck_size if config.use_bottleneck else config.hidden_size
        if config.true_hidden_size != size:
            yield Fault("true_hidden_size", config.true_hidden_size, f"the other sizes make it {size}; leave it out")
        whole = config.use_bottleneck and not (config.use_bottleneck_attention or config.key_query_shared_bottleneck)
        if whole and size != config.hidden_size:
            why = "its queries and keys would be of hidden_size numbers, and their weights read true_hidden_size"
            yield Fault("key_query_shared_bottleneck", False, f"it must be true: {why}")
        if config.embedding_size > config.hidden_size:
            yield Fault("embedding_size", config.embedding_size, f"allowed are up to hidden_size, {config.hidden_size}")
        if config.normalization_type not in ("no_norm", "layer_norm"):
            yield Fault("normalization_type", config.normalization_type, "allowed are no_norm and layer_norm")

    @property
    def head_size(self) -> int:
        return int(self.model.config.true_hidden_size) // int(self.model.config.num_attention_heads)

    @property
    def inner_size(self) -> int:
        return int(self.model.config.true_hidden_size)

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        output = self.layers[index].output
        found = output.bottleneck.LayerNorm if self.model.config.use_bottleneck else output.LayerNorm
        return found if isinstance(found, torch.nn.LayerNorm) else None

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        words = self.encoder.embeddings.word_embeddings(ids)
        if valid is not None:
            # The last token's right neighbour is zero when a text runs alone; padding must not change that.
            words = words * valid[:, :, None]
        return self.encoder.embeddings(inputs_embeds=words, token_type_ids=segments)
