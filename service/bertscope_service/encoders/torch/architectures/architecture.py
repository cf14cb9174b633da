"""Defines what an architecture declares, with BERT's layout, which most of the family shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import torch
import transformers

from bertscope_service.encoders.gating import LayerRun
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.shared_code import import_shared_code

SENTENCE_SCORES = "cls.seq_relationship"
"""Path of the last layer of a next-sentence head, as pre-training checkpoints name it."""

MAX_LAYERS = 512
"""The most layers of a model."""

CONVOLUTIONS = "its convolutions read all positions, and graphs are cut into parts that read some"
SHARED_WEIGHTS = "their layers share weights"


class Fault(NamedTuple):
    """An entry of a config that does not fit the others: its name, its value, and the allowed ones."""

    key: str
    found: object
    allowed: str


class Network(NamedTuple):
    """The place of a feed-forward network in a layer: paths of the linear layers into and out of its units.

    `fused` is the number of projections that the first holds, one after another: 2 for a gated network. `size` is the entry of
    the config with the number of units.
    """

    into: tuple[str, ...] = ("intermediate.dense",)
    out: str = "output.dense"
    fused: int = 1
    size: str = "intermediate_size"


class Architecture:
    """BERT's layout, which most of the family shares; subclasses override what differs.

    `masked_lm` is the name of transformers' masked-LM class; `base` and `head` are names of its attributes. `layer_list` is the
    path of the list of layers below the base, None where layers are runs of shared weights. `position_types` are the allowed
    values of `position_embedding_type` in a config. `reads_weights` names classes of modules that read the `weight` of a linear
    layer instead of calling it, so that it can't be packed.

    Paths below a layer: `attention` is the attention, `inputs` are its query, key and value projections below it, each of which
    holds `fused` of them; `output` is its output projection; `norm` the layer normalisation of x + attention(x), None without
    one; `end_norm` the normalisation at the end; `network` the feed-forward network, and `more_networks` a list of others.
    `last_norm` is the path below the base of the normalisation behind the last layer, None without one; it counts as the end of
    that layer, so that its output is transformers' last hidden states. `read_norm` is that of the states that the feed-forward
    network reads, if the network itself does not hold it.

    `unpads` is true if `run_layer` runs tokens without padding too, [1, tokens, hidden_size] with the layout in the run; if its
    layers read positions, `reads_positions` is true and `places` gives them. `embeds_unpadded` is true if `embed` also takes
    tokens without padding; `embeds_positions` if its embeddings have positions.

    `in_parts` is true if `projections` and `finish` exist, so that a layer can be run in two parts; `in_stream` if
    `feed_forward` and `head_modules` do. `unprunable` says why heads can't be removed from the weights, None if they can;
    `fixed_layers` and `fixed_network` likewise of whole layers and of units of feed-forward networks. `beside_heads` names what
    else the output projection reads. `sees_padding` is true if transformers' own layers read padding. `first_layer_differs` is
    true if layer 0 must stay. `kept` names the remaining heads of layers that lost some. `pooler` is the name of transformers'
    class of the pooler below a next-sentence head, for architectures that are pre-trained with one; `unread` are paths of parts
    below the base that nothing here reads, so that a checkpoint may lack them. `former_names` are patterns of names that other
    libraries saved parameters under, with today's; `former_parts` are modules of theirs, by their names after that, with the
    modules of today that they hold one after another.
    """

    masked_lm = "BertForMaskedLM"
    base = "bert"
    head = "cls"
    layer_list: str | None = "encoder.layer"
    reads_segments = True
    reads_weights: frozenset[str] = frozenset()
    positions_follow_padding = False
    position_types: tuple[str, ...] = ("absolute",)
    unpads = True
    reads_positions = False
    embeds_unpadded = True
    embeds_positions = True
    in_parts = True
    in_stream = True
    attention = "attention.self"
    inputs: tuple[str, ...] = ("query", "key", "value")
    fused = 1
    output = "attention.output.dense"
    norm: str | None = "attention.output.LayerNorm"
    read_norm: str | None = None
    end_norm: str | None = "output.LayerNorm"
    last_norm: str | None = None
    network = Network()
    more_networks: str | None = None
    unprunable: str | None = None
    fixed_layers: str | None = None
    fixed_network: str | None = None
    beside_heads: str | None = None
    sees_padding = False
    first_layer_differs = False
    pooler: str | None = None
    unread: tuple[str, ...] = ("pooler",)
    former_names: ClassVar[Mapping[str, str]] = {}
    former_parts: ClassVar[Mapping[str, tuple[str, ...]]] = {}

    def __init__(self, model: Any) -> None:
        self.model = model
        self.encoder = getattr(model, self.base)
        self.layers: list[Any] = self.find_layers()
        self.kept: dict[int, tuple[int, ...]] = {}

    @classmethod
    def class_of(cls, head: Head) -> Any:
        """Returns transformers' class of models with a head, the masked-LM class if it has none with that head. transformers
        imports its module now."""
        import_shared_code()
        return getattr(transformers, cls.name_of(head) or cls.masked_lm)

    @classmethod
    def name_of(cls, head: Head) -> str | None:
        """Returns the name of transformers' class of models with a head, None if it has none for this architecture."""
        stem = cls.masked_lm
        for suffix in Head.MASKED_LM.suffixes:
            stem = stem.removesuffix(suffix)
        return next((stem + suffix for suffix in head.suffixes if stem + suffix in transformers.__all__), None)

    @classmethod
    def make_pooler(cls, config: Any) -> torch.nn.Module:
        """Returns a new pooler below a next-sentence head. Raises ValueError for an architecture without one."""
        if cls.pooler is None:
            raise ValueError(f"{cls.base} has no next-sentence head")
        made: torch.nn.Module = getattr(import_module(cls.class_of(Head.MASKED_LM).__module__), cls.pooler)(config)
        return made

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        """Yields entries of a config that don't fit the others."""
        padding = getattr(config, "pad_token_id", None)
        if cls.positions_follow_padding:
            if padding is None:
                yield Fault("pad_token_id", None, f"allowed are 0 to {config.vocab_size - 1}: positions count from behind it")
            elif config.max_position_embeddings < padding + 2:
                yield Fault("max_position_embeddings", config.max_position_embeddings, f"it must be over {padding + 1}")
        if cls.reads_segments and config.type_vocab_size < 1:
            yield Fault("type_vocab_size", config.type_vocab_size, "allowed are whole numbers from 1")

    @classmethod
    def unexportable(cls, settings: Mapping[str, Any]) -> str:
        """Returns why a model can't be exported as ONNX graphs, "" if it can. `settings` are the entries of its config.json, as
        far as they are known."""
        return ""

    @classmethod
    def optional(cls, name: str) -> bool:
        """Checks that a checkpoint may lack a parameter of the base, because nothing here reads it."""
        return name.startswith(tuple(f"{cls.base}.{path}." for path in cls.unread))

    def find_layers(self) -> list[Any]:
        """Returns the modules to run, in order, one for every layer that has attention maps."""
        if self.layer_list is None:
            raise NotImplementedError
        return list(self.encoder.get_submodule(self.layer_list))

    def drop_layers(self, kept: Sequence[int]) -> None:
        """Fits parts outside the layers that have weights for each of them to the remaining ones."""

    def max_tokens(self) -> int:
        """The longest sequence that the position embeddings allow."""
        places = int(self.model.config.max_position_embeddings)
        return places - int(self.model.config.pad_token_id) - 1 if self.positions_follow_padding else places

    def segments(self) -> int:
        """The number of segments in the embeddings."""
        return max(1, int(self.model.config.type_vocab_size)) if self.reads_segments else 1

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Embeds ids, segments: int64 [rows, length] -> [rows, length, hidden_size]; `valid` as in `run_layer`. `places`, int64
        [1, tokens], gives each token's position in its row where tokens lie without padding, [1, tokens] also."""
        given = {} if self.segments() < 2 else {"token_type_ids": segments}
        if places is not None and self.embeds_positions:
            given["position_ids"] = self.position_ids(ids, places)
        return self.encoder.embeddings(input_ids=ids, **given)

    def position_ids(self, ids: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        """Returns the entries of tokens without padding in the table of positions, [1, tokens]; arguments as in `embed`."""
        if not self.positions_follow_padding:
            return places
        padding = int(self.model.config.pad_token_id)
        counted = (ids != padding).long()
        seen = counted.cumsum(1)
        first = torch.arange(ids.shape[1], dtype=torch.int64, device=ids.device) - places
        return (seen - (seen - counted).gather(1, first)) * counted + padding

    def run_layer(
        self, index: int, hidden: torch.Tensor, valid: torch.Tensor | None, run: LayerRun, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Runs one layer; `valid` is bool [rows, length], None if no row is padded. `places`, int64 [rows, length], gives each
        vector's position in its text; None if all are there."""
        mask = None if valid is None else valid[:, None, None, :]
        return self.ended(index, self.layers[index](hidden, attention_mask=mask, run=run))

    def ended(self, index: int, output: torch.Tensor) -> torch.Tensor:
        """Applies the normalisation behind the last layer to its output; returns that of other layers as it is."""
        norm = self.norm_behind if index == len(self.layers) - 1 else None
        return output if norm is None else norm(output)

    @property
    def norm_behind(self) -> Any:
        """The normalisation behind the last layer, None without one."""
        return None if self.last_norm is None else self.encoder.get_submodule(self.last_norm)

    def projections(self, index: int) -> tuple[Any, ...]:
        """Returns the query, key and value projections of a layer, each [rows, n, hidden_size] -> [rows, n, heads *
        head_size]."""
        attention = self.layers[index].get_submodule(self.attention)
        return tuple(attention.get_submodule(name) for name in self.inputs)

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
        read = attended if self.read_norm is None else layer.get_submodule(self.read_norm)(attended)
        return layer.output.dense(layer.intermediate(read))

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        """Returns the masked-LM head's dense layer, activation, normalisation and decoder."""
        head = getattr(self.model, self.head).predictions
        return head.transform.dense, head.transform.transform_act_fn, head.transform.LayerNorm, head.decoder

    def decoder_bias(self) -> torch.Tensor | None:
        """Returns the bias of the masked-LM head's scores, [vocabulary_size]."""
        bias: torch.Tensor | None = self.head_modules()[3].bias
        return bias

    def norm_at_end(self, index: int) -> torch.nn.LayerNorm | None:
        """Returns the layer normalisation at the end of a layer, None without one."""
        if self.end_norm is None:
            found = self.norm_behind if index == len(self.layers) - 1 else None
        else:
            found = self.layers[index].get_submodule(self.end_norm)
        return found if isinstance(found, torch.nn.LayerNorm) else None

    @property
    def heads(self) -> int:
        """The number of heads of a layer."""
        return int(self.model.config.num_attention_heads)

    @property
    def head_size(self) -> int:
        """The length of a head's context."""
        config = self.model.config
        return int(getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)

    @property
    def activation_size(self) -> int:
        """The number of activations of a feed-forward block."""
        return int(getattr(self.model.config, self.network.size))

    def second_matrix(self, index: int) -> torch.nn.Module:
        """Returns the module that reads the activations of a layer's feed-forward block, of the last one if it has several."""
        found: torch.nn.Module = self.layers[index].get_submodule(self.network.out)
        return found

    def by_token(self, value: torch.Tensor) -> torch.Tensor:
        """Returns a value inside a layer as [rows, length, size], and one of that form as the layer has it."""
        return value

    @property
    def inner_size(self) -> int:
        """The length of the outputs of attention and of the feed-forward block, before the residual connection."""
        return int(self.model.config.hidden_size)

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
