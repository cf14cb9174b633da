"""Defines the architectures that can be hosted: for each, where transformers keeps its embeddings, layers and heads.

To add one: subclass `Architecture`, name its parts, list it in `ARCHITECTURES`, add its tiny config to
`tests/support/tiny.py`; the parity tests then run on it.
"""

from __future__ import annotations

from typing import Any

import torch
import transformers
from transformers.models.bert.modeling_bert import BertPooler
from transformers.models.mobilebert.modeling_mobilebert import MobileBertPooler

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.architecture import Architecture


class Bert(Architecture):
    """BERT itself."""

    pooler = BertPooler


class Roberta(Architecture):
    """RoBERTa: positions count from the padding index, and two of them are never used."""

    masked_lm = transformers.RobertaForMaskedLM
    base = "roberta"
    head = "lm_head"

    def max_tokens(self) -> int:
        return int(self.model.config.max_position_embeddings) - int(self.model.config.pad_token_id) - 1

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class XlmRoberta(Roberta):
    """RoBERTa in many languages."""

    masked_lm = transformers.XLMRobertaForMaskedLM


class DistilBert(Architecture):
    """DistilBERT: no segments; the head's parts lie beside each other."""

    masked_lm = transformers.DistilBertForMaskedLM
    base = "distilbert"
    output = "attention.out_lin"
    norm = "sa_layer_norm"
    end_norm = "output_layer_norm"
    activations_reader = "ffn.lin2"
    reads_segments = False

    @property
    def activation_size(self) -> int:
        return int(self.model.config.hidden_dim)

    def find_layers(self) -> list[Any]:
        return list(self.encoder.transformer.layer)

    def projections(self, index: int) -> tuple[Any, Any, Any]:
        attention = self.layers[index].attention
        return attention.q_lin, attention.k_lin, attention.v_lin

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

    masked_lm = transformers.AlbertForMaskedLM
    base = "albert"
    output = "attention.dense"
    norm = "attention.LayerNorm"
    end_norm = "full_layer_layer_norm"
    activations_reader = "ffn_output"
    head = "predictions"

    def find_layers(self) -> list[Any]:
        config, groups = self.model.config, self.encoder.encoder.albert_layer_groups
        runs = config.num_hidden_layers
        return [layer for run in range(runs) for layer in groups[run * config.num_hidden_groups // runs].albert_layers]

    def embed(self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.encoder.encoder.embedding_hidden_mapping_in(super().embed(ids, segments, valid))

    def projections(self, index: int) -> tuple[Any, Any, Any]:
        attention = self.layers[index].attention
        return attention.query, attention.key, attention.value

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

    masked_lm = transformers.ElectraForMaskedLM
    base = "electra"

    def embed(self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        hidden = super().embed(ids, segments, valid)
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

    masked_lm = transformers.MobileBertForMaskedLM
    base = "mobilebert"
    pooler = MobileBertPooler
    reads_weights = frozenset({"MobileBertLMPredictionHead"})
    in_parts = False
    in_stream = False
    norm = None

    @property
    def head_size(self) -> int:
        return int(self.model.config.true_hidden_size) // int(self.model.config.num_attention_heads)

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        output = self.layers[index].output
        found = output.bottleneck.LayerNorm if self.model.config.use_bottleneck else output.LayerNorm
        return found if isinstance(found, torch.nn.LayerNorm) else None

    def embed(self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        words = self.encoder.embeddings.word_embeddings(ids)
        if valid is not None:
            # The last token's right neighbour is zero when a text runs alone; padding must not change that.
            words = words * valid[:, :, None]
        return self.encoder.embeddings(inputs_embeds=words, token_type_ids=segments)


class ModernBert(Architecture):
    """ModernBERT: rotary positions; most layers attend only within a window of `sliding_window` tokens to each side. The norm
    behind the last layer counts as its end, so that its output is transformers' last hidden states."""

    masked_lm = transformers.ModernBertForMaskedLM
    base = "model"
    reads_segments = False
    in_parts = False
    norm = None
    output = "attn.Wo"
    activations_reader = "mlp.Wo"

    def find_layers(self) -> list[Any]:
        return list(self.encoder.layers)

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        layer = self.layers[index]
        if places is None:
            places = torch.arange(hidden.shape[1], dtype=torch.int64, device=hidden.device)[None]
        mask = None if valid is None else valid[:, None, None, :]
        if layer.attention_type == "sliding_attention":
            near = (places[:, :, None] - places[:, None, :]).abs() <= self.model.config.sliding_window
            # A padded position may have no real token in its window; it attends to all of them, since a row of the map
            # that is masked everywhere would be NaN and spread.
            mask = near[:, None] if valid is None else valid[:, None, None, :] & (near | ~valid[:, :, None])[:, None]
        rotary = self.encoder.rotary_emb(hidden, places, layer.attention_type)
        output = layer(hidden, attention_mask=mask, position_embeddings=rotary, run=run)
        norm = self.norm_at_end(index)
        return output if norm is None else norm(output)

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        last: torch.nn.LayerNorm | None = self.encoder.final_norm if index == len(self.layers) - 1 else None
        return last

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
        if self.reads_first:
            pooled = hidden[:, 0]
        elif valid is None:
            pooled = hidden.mean(dim=1)
        else:
            pooled = (hidden * valid[:, :, None]).sum(dim=1) / valid.sum(dim=1, keepdim=True)
        return self.model.classifier(self.model.head(pooled))


ARCHITECTURES: dict[str, type[Architecture]] = {
    "albert": Albert,
    "bert": Bert,
    "distilbert": DistilBert,
    "electra": Electra,
    "mobilebert": MobileBert,
    "modernbert": ModernBert,
    "roberta": Roberta,
    "xlm-roberta": XlmRoberta,
}
"""Architectures by `model_type` in a checkpoint's config.json."""
