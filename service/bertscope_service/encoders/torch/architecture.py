"""Defines what differs between architectures, with BERT's layout, which most of the family shares."""

from __future__ import annotations

from typing import Any

import torch
import transformers

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.torch.heads import Head

SENTENCE_SCORES = "cls.seq_relationship"
"""Path of the last layer of a next-sentence head, as pre-training checkpoints name it."""


class Architecture:
    """BERT's layout, which most of the family shares; subclasses override what differs.

    `base` and `head` are attribute names on the masked-LM class. `reads_weights` names classes of modules that read the
    `weight` of a linear layer instead of calling it, so that it can't be packed. `in_parts` is true if `projections` and
    `finish` exist, so that a layer can be run in two parts; `in_stream` if `feed_forward` and `head_modules` do. `output` and
    `norm` are the paths, below a layer, of its output projection and of the layer normalisation of x + attention(x), None
    without one; `end_norm` is that of the normalisation at its end, `activations_reader` that of the second matrix
    of the feed-forward block. `kept` names the remaining heads of layers that lost some.
    `pooler` is the class of the pooler below a next-sentence head, for architectures that are pre-trained with one.
    """

    masked_lm: type[Any] = transformers.BertForMaskedLM
    base = "bert"
    head = "cls"
    reads_segments = True
    reads_weights: frozenset[str] = frozenset()
    in_parts = True
    in_stream = True
    output = "attention.output.dense"
    norm: str | None = "attention.output.LayerNorm"
    end_norm = "output.LayerNorm"
    activations_reader = "output.dense"
    pooler: type[Any] | None = None

    def __init__(self, model: Any) -> None:
        self.model = model
        self.encoder = getattr(model, self.base)
        self.layers: list[Any] = self.find_layers()
        self.kept: dict[int, tuple[int, ...]] = {}

    @classmethod
    def class_of(cls, head: Head) -> type[Any] | None:
        """Returns transformers' class of a head, None if there is none for this architecture."""
        names = (cls.masked_lm.__name__.removesuffix(Head.MASKED_LM) + suffix for suffix in head.suffixes)
        return next((found for name in names if (found := getattr(transformers, name, None)) is not None), None)

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

    @property
    def activation_size(self) -> int:
        """The number of activations of a feed-forward block."""
        return int(self.model.config.intermediate_size)

    def second_matrix(self, index: int) -> torch.nn.Module:
        """Returns the module that reads the activations of a layer's feed-forward block, of the last one if it has several."""
        found: torch.nn.Module = self.layers[index].get_submodule(self.activations_reader)
        return found

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

    def before_token_head(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns what a token classification or question answering head reads: [rows, length, hidden_size], likewise."""
        return hidden

    def label_tokens(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the token classification head: [rows, length, hidden_size] -> [rows, length, labels]."""
        return self.model.classifier(self.before_token_head(hidden))

    def answer(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the question answering head: [rows, length, hidden_size] -> [rows, length, 2], scores of start and end."""
        return self.model.qa_outputs(self.before_token_head(hidden))

    def relate(self, hidden: torch.Tensor) -> torch.Tensor:
        """Applies the next-sentence head, which reads the first position: [rows, length, hidden_size] -> [rows, 2]."""
        return self.model.get_submodule(SENTENCE_SCORES)(self.encoder.pooler(hidden))
