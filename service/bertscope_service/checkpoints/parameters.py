"""Names and shapes of the parameters that a config implies, for each architecture; no model is built to know them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bertscope_service.encoders.torch.pruning import PARTS, Heads, remaining

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a model.

    base: those of its encoder, which are required. pooler: those that a classifier has besides. Both are named as below the
    base. head: those of its head, by their whole names. layers: the prefix of layers' names.
    """

    base: Shapes
    pooler: Shapes
    head: Shapes
    layers: str


def linear(name: str, outputs: int, inputs: int, *, bias: bool = True) -> Shapes:
    """Returns a matrix and its bias."""
    return {f"{name}.weight": (outputs, inputs)} | ({f"{name}.bias": (outputs,)} if bias else {})


def _squares(name: str, parts: Iterable[str], size: int) -> Shapes:
    """Returns square linear layers."""
    return {key: shape for part in parts for key, shape in linear(f"{name}.{part}", size, size).items()}


def norm(name: str, size: int, *, bias: bool = True) -> Shapes:
    """Returns scales and shifts."""
    return {f"{name}.{kind}": (size,) for kind in (("weight", "bias") if bias else ("weight",))}


def _embeddings(config: Any, size: int, *, segments: bool = True) -> Shapes:
    return {
        "embeddings.word_embeddings.weight": (config.vocab_size, size),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, size),
        **({"embeddings.token_type_embeddings.weight": (config.type_vocab_size, size)} if segments else {}),
        **norm("embeddings.LayerNorm", size),
    }


def _bert_layer(name: str, size: int, units: int) -> Shapes:
    return {
        **_squares(f"{name}.attention", ("self.query", "self.key", "self.value", "output.dense"), size),
        **norm(f"{name}.attention.output.LayerNorm", size),
        **linear(f"{name}.intermediate.dense", units, size),
        **linear(f"{name}.output.dense", size, units),
        **norm(f"{name}.output.LayerNorm", size),
    }


def _bert_layers(config: Any) -> Shapes:
    size, units = config.hidden_size, config.intermediate_size
    return _all(config.num_hidden_layers, lambda number: _bert_layer(f"encoder.layer.{number}", size, units))


def _all(count: int, layer: Callable[[int], Shapes]) -> Shapes:
    return {name: shape for number in range(count) for name, shape in layer(number).items()}


def _output(name: str, config: Any, size: int) -> Shapes:
    """Returns the output matrix of the vocabulary; if it is tied to the embeddings it need not be stored."""
    return linear(name, config.vocab_size, size)


def bert(config: Any) -> Parameters:
    size = config.hidden_size
    masked_lm = {
        "cls.predictions.bias": (config.vocab_size,),
        **linear("cls.predictions.transform.dense", size, size),
        **norm("cls.predictions.transform.LayerNorm", size),
        **_output("cls.predictions.decoder", config, size),
    }
    classifier, pooler = linear("classifier", _labels(config), size), linear("pooler.dense", size, size)
    return _choose(config, _embeddings(config, size) | _bert_layers(config), masked_lm, classifier, pooler)


def roberta(config: Any) -> Parameters:
    size = config.hidden_size
    masked_lm = {
        "lm_head.bias": (config.vocab_size,),
        **linear("lm_head.dense", size, size),
        **norm("lm_head.layer_norm", size),
        **_output("lm_head.decoder", config, size),
    }
    classifier = linear("classifier.dense", size, size) | linear("classifier.out_proj", _labels(config), size)
    return _choose(config, _embeddings(config, size) | _bert_layers(config), masked_lm, classifier)


def electra(config: Any) -> Parameters:
    size, narrow = config.hidden_size, config.embedding_size
    base = _embeddings(config, narrow) | _bert_layers(config)
    if narrow != size:
        base |= linear("embeddings_project", size, narrow)
    masked_lm = {
        **norm("generator_predictions.LayerNorm", narrow),
        **linear("generator_predictions.dense", narrow, size),
        **_output("generator_lm_head", config, narrow),
    }
    classifier = linear("classifier.dense", size, size) | linear("classifier.out_proj", _labels(config), size)
    return _choose(config, base, masked_lm, classifier)


def distilbert(config: Any) -> Parameters:
    size, units = config.dim, config.hidden_dim
    base = _embeddings(config, size, segments=False)

    def layer(number: int) -> Shapes:
        name = f"transformer.layer.{number}"
        return {
            **_squares(f"{name}.attention", ("q_lin", "k_lin", "v_lin", "out_lin"), size),
            **norm(f"{name}.sa_layer_norm", size),
            **linear(f"{name}.ffn.lin1", units, size),
            **linear(f"{name}.ffn.lin2", size, units),
            **norm(f"{name}.output_layer_norm", size),
        }

    masked_lm = {
        **linear("vocab_transform", size, size),
        **norm("vocab_layer_norm", size),
        **_output("vocab_projector", config, size),
    }
    classifier = linear("pre_classifier", size, size) | linear("classifier", _labels(config), size)
    return _choose(config, base | _all(config.n_layers, layer), masked_lm, classifier, layers="transformer.layer.")


def albert(config: Any) -> Parameters:
    size, narrow, units = config.hidden_size, config.embedding_size, config.intermediate_size
    base = _embeddings(config, narrow) | linear("encoder.embedding_hidden_mapping_in", size, narrow)

    def layer(number: int) -> Shapes:
        group, inner = divmod(number, config.inner_group_num)
        name = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
        return {
            **norm(f"{name}.full_layer_layer_norm", size),
            **_squares(f"{name}.attention", ("query", "key", "value", "dense"), size),
            **norm(f"{name}.attention.LayerNorm", size),
            **linear(f"{name}.ffn", units, size),
            **linear(f"{name}.ffn_output", size, units),
        }

    masked_lm = {
        "predictions.bias": (config.vocab_size,),
        **norm("predictions.LayerNorm", narrow),
        **linear("predictions.dense", narrow, size),
        **_output("predictions.decoder", config, narrow),
    }
    layers = _all(config.num_hidden_groups * config.inner_group_num, layer)
    classifier, pooler = linear("classifier", _labels(config), size), linear("pooler", size, size)
    return _choose(config, base | layers, masked_lm, classifier, pooler, layers="encoder.albert_layer_groups.")


def mobilebert(config: Any) -> Parameters:
    size, inner, units = config.hidden_size, config.true_hidden_size, config.intermediate_size
    base: Shapes = {
        "embeddings.word_embeddings.weight": (config.vocab_size, config.embedding_size),
        "embeddings.position_embeddings.weight": (config.max_position_embeddings, size),
        "embeddings.token_type_embeddings.weight": (config.type_vocab_size, size),
        **linear("embeddings.embedding_transformation", size, config.embedding_size * (3 if config.trigram_input else 1)),
        **norm("embeddings.LayerNorm", size),
    }

    def network(name: str) -> Shapes:
        """Returns a feed-forward network."""
        return {
            **linear(f"{name}.intermediate.dense", units, inner),
            **linear(f"{name}.output.dense", inner, units),
            **norm(f"{name}.output.LayerNorm", inner),
        }

    def layer(number: int) -> Shapes:
        name = f"encoder.layer.{number}"
        values = inner if config.use_bottleneck_attention else size
        found = {
            **linear(f"{name}.attention.self.query", inner, inner),
            **linear(f"{name}.attention.self.key", inner, inner),
            **linear(f"{name}.attention.self.value", inner, values),
            **linear(f"{name}.attention.output.dense", inner, inner),
            **norm(f"{name}.attention.output.LayerNorm", inner),
            **network(name),
        }
        if config.use_bottleneck:
            found |= linear(f"{name}.output.bottleneck.dense", size, inner) | norm(f"{name}.output.bottleneck.LayerNorm", size)
            for part in ("input", "attention") if config.key_query_shared_bottleneck else ("input",):
                place = f"{name}.bottleneck.{part}"
                found |= linear(f"{place}.dense", inner, size) | norm(f"{place}.LayerNorm", inner)
        for further in range(config.num_feedforward_networks - 1):
            found |= network(f"{name}.ffn.{further}")
        return found

    masked_lm = {
        "cls.predictions.bias": (config.vocab_size,),
        **linear("cls.predictions.transform.dense", size, size),
        **norm("cls.predictions.transform.LayerNorm", size),
        "cls.predictions.dense.weight": (size - config.embedding_size, config.vocab_size),
        **_output("cls.predictions.decoder", config, config.embedding_size),
    }
    # Without the activation its pooler has no weights.
    pooler = linear("pooler.dense", size, size) if config.classifier_activation else {}
    classifier = linear("classifier", _labels(config), size)
    return _choose(config, base | _all(config.num_hidden_layers, layer), masked_lm, classifier, pooler)


def modernbert(config: Any) -> Parameters:
    size, units = config.hidden_size, config.intermediate_size
    attention, mlp, norms = config.attention_bias, config.mlp_bias, config.norm_bias

    def layer(number: int) -> Shapes:
        name = f"layers.{number}"
        # The first layer has no norm: the embeddings' norm precedes it.
        return {
            **(norm(f"{name}.attn_norm", size, bias=norms) if number else {}),
            **linear(f"{name}.attn.Wqkv", 3 * size, size, bias=attention),
            **linear(f"{name}.attn.Wo", size, size, bias=attention),
            **norm(f"{name}.mlp_norm", size, bias=norms),
            **linear(f"{name}.mlp.Wi", 2 * units, size, bias=mlp),
            **linear(f"{name}.mlp.Wo", size, units, bias=mlp),
        }

    base = {
        "embeddings.tok_embeddings.weight": (config.vocab_size, size),
        **norm("embeddings.norm", size, bias=norms),
        **norm("final_norm", size, bias=norms),
        **_all(config.num_hidden_layers, layer),
    }
    head = linear("head.dense", size, size, bias=config.classifier_bias) | norm("head.norm", size, bias=norms)
    masked_lm = head | linear("decoder", config.vocab_size, size, bias=config.decoder_bias)
    return _choose(config, base, masked_lm, head | linear("classifier", _labels(config), size), layers="layers.")


def _labels(config: Any) -> int:
    return int(config.num_labels)


def _choose(
    config: Any,
    base: Shapes,
    masked_lm: Shapes,
    classifier: Shapes,
    pooler: Shapes | None = None,
    *,
    layers: str = "encoder.layer.",
) -> Parameters:
    """Returns the parameters of a classifier or of a masked-LM, as the config says."""
    if classifies(config):
        return Parameters(base, pooler or {}, classifier, layers)
    return Parameters(base, {}, masked_lm, layers)


def classifies(config: Any) -> bool:
    """Checks that a config is that of a sequence classifier."""
    return any(str(written).endswith("ForSequenceClassification") for written in config.architectures or ())


PARAMETERS: Mapping[str, Callable[[Any], Parameters]] = {
    "albert": albert,
    "bert": bert,
    "distilbert": distilbert,
    "electra": electra,
    "mobilebert": mobilebert,
    "modernbert": modernbert,
    "roberta": roberta,
    "xlm-roberta": roberta,
}
"""The functions by `model_type`."""


def without_heads(parameters: Parameters, architecture: str, heads: int, gone: Heads) -> Parameters:
    """Returns the parameters of a model that lacks some of its `heads` heads in some layers."""
    if not gone:
        return parameters
    parts, base = PARTS[architecture], dict(parameters.base)
    for layer, removed in gone.items():
        name, left = f"{parameters.layers}{layer}", len(remaining(heads, removed))
        output = f"{name}.{parts.output}.weight"
        for part in parts.inputs:
            for kind in ("weight", "bias"):
                key = f"{name}.{parts.attention}.{part}.{kind}"
                if key in base:
                    rows, *columns = base.pop(key)
                    if left:
                        base[key] = (rows // heads * left, *columns)
        rows, columns_of = base.pop(output)
        if left:
            base[output] = (rows, columns_of // heads * left)
    return Parameters(base, parameters.pooler, parameters.head, parameters.layers)
