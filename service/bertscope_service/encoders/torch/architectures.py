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

SENTENCE_SCORES = "cls.seq_relationship"
"""Path of the last layer of a next-sentence head, as pre-training checkpoints name it."""


class Architecture:
    """BERT's layout, which most of the family shares; subclasses override what differs.

    `base` and `head` are attribute names on the masked-LM class. `reads_weights` names classes of modules that read the
    `weight` of a linear layer instead of calling it, so that it can't be packed. `in_parts` is true if `projections` and
    `finish` exist, so that a layer can be run in two parts; `in_stream` if `feed_forward` and `head_modules` do. `output` and
    `norm` are the paths, below a layer, of its output projection and of the layer normalisation of x + attention(x), None
    without one; `end_norm` is that of the normalisation at its end. `kept` names the remaining heads of layers that lost some.
    `pooler` is the class of the pooler below a next-sentence head, for architectures that are pre-trained with one.
    """

    masked_lm: type[Any] = transformers.BertForMaskedLM
    sequence_classification: type[Any] = transformers.BertForSequenceClassification
    base = "bert"
    head = "cls"
    reads_segments = True
    reads_weights: frozenset[str] = frozenset()
    in_parts = True
    in_stream = True
    output = "attention.output.dense"
    norm: str | None = "attention.output.LayerNorm"
    end_norm = "output.LayerNorm"
    pooler: type[Any] | None = None

    def __init__(self, model: Any) -> None:
        self.model = model
        self.encoder = getattr(model, self.base)
        self.layers: list[Any] = self.find_layers()
        self.kept: dict[int, tuple[int, ...]] = {}

    def find_layers(self) -> list[Any]:
        """Returns the modules to run, in order, one for every layer that has attention maps."""
        return list(self.encoder.encoder.layer)

    def max_tokens(self) -> int:
        """The longest sequence that the position embeddings allow."""
        return int(self.model.config.max_position_embeddings)

    def segments(self) -> int:
        """The number of segments in the embeddings."""
        return max(1, int(self.model.config.type_vocab_size)) if self.reads_segments else 1

    def embed(self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        """Embeds ids, segments: int64 [rows, length] -> [rows, length, hidden_size]; `valid` as in `run_layer`."""
        if self.segments() < 2:
            return self.encoder.embeddings(input_ids=ids)
        return self.encoder.embeddings(input_ids=ids, token_type_ids=segments)

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Runs one layer; `valid` is bool [rows, length], None if no row is padded. `places`, int64 [rows, length], gives each
        vector's position in its text; None if all are there."""
        mask = None if valid is None else valid[:, None, None, :]
        return self.layers[index](hidden, attention_mask=mask, run=run)

    def projections(self, index: int) -> tuple[Any, Any, Any]:
        """Returns the query, key and value projections of a layer, each [rows, n, hidden_size] -> [rows, n, heads *
        head_size]."""
        attention = self.layers[index].attention.self
        return attention.query, attention.key, attention.value

    def finish(self, index: int, context: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
        """Runs the rest of a layer after its heads: context [rows, n, heads * head_size], hidden as at the layer's start."""
        layer = self.layers[index]
        return layer.feed_forward_chunk(layer.attention.output(context, hidden))

    def output_projection(self, index: int) -> Any:
        """Returns the output projection of a layer's heads, [..., heads * head_size] -> [..., size]."""
        return self.layers[index].get_submodule(self.output)

    def norm_after_heads(self, index: int) -> Any:
        """Returns the layer normalisation of x + attention(x), if the architecture has one."""
        return self.layers[index].get_submodule(self.norm)

    def feed_forward(self, index: int, attended: torch.Tensor) -> torch.Tensor:
        """Returns what the feed-forward block of a layer adds to the states after its heads."""
        layer = self.layers[index]
        return layer.output.dense(layer.intermediate(attended))

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        """Returns the masked-LM head's dense layer, activation, normalisation and decoder."""
        head = getattr(self.model, self.head).predictions
        return head.transform.dense, head.transform.transform_act_fn, head.transform.LayerNorm, head.decoder

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        """Returns the layer normalisation at the end of a layer, None without one."""
        found = self.layers[index].get_submodule(self.end_norm)
        return found if isinstance(found, torch.nn.LayerNorm) else None

    @property
    def head_size(self) -> int:
        """The length of a head's context."""
        return int(self.model.config.hidden_size) // int(self.model.config.num_attention_heads)

    def predict(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the masked-LM head: [n, hidden_size] -> [n, vocabulary_size]."""
        return getattr(self.model, self.head)(hidden)

    @property
    def reads_first(self) -> bool:
        """True if `classify` reads the first position alone."""
        return True

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        """Applies the classification head: [rows, length, hidden_size] -> [rows, labels]."""
        return self.model.classifier(self.encoder.pooler(hidden))

    def relate(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the next-sentence head, which reads the first position: [rows, length, hidden_size] -> [rows, 2]."""
        return self.model.get_submodule(SENTENCE_SCORES)(self.encoder.pooler(hidden))


class Bert(Architecture):
    """BERT itself."""

    pooler = BertPooler


class Roberta(Architecture):
    """RoBERTa: positions count from the padding index, and two of them are never used."""

    masked_lm = transformers.RobertaForMaskedLM
    sequence_classification = transformers.RobertaForSequenceClassification
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
    sequence_classification = transformers.XLMRobertaForSequenceClassification


class DistilBert(Architecture):
    """DistilBERT: no segments; the head's parts lie beside each other."""

    masked_lm = transformers.DistilBertForMaskedLM
    sequence_classification = transformers.DistilBertForSequenceClassification
    base = "distilbert"
    output = "attention.out_lin"
    norm = "sa_layer_norm"
    end_norm = "output_layer_norm"
    reads_segments = False

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
    sequence_classification = transformers.AlbertForSequenceClassification
    base = "albert"
    output = "attention.dense"
    norm = "attention.LayerNorm"
    end_norm = "full_layer_layer_norm"
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
    sequence_classification = transformers.ElectraForSequenceClassification
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
    sequence_classification = transformers.MobileBertForSequenceClassification
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
    sequence_classification = transformers.ModernBertForSequenceClassification
    base = "model"
    reads_segments = False
    in_parts = False
    norm = None
    output = "attn.Wo"

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
