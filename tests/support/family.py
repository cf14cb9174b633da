"""The tiny configs of every architecture that is hosted, with the kind of tokenizer that each has."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_TOKENS = 64
"""The longest row of every checkpoint, special tokens included."""


@dataclass(frozen=True)
class Member:
    """One architecture: its tokenizer and the settings of its config."""

    tokenizer: str
    tokenizer_class: str
    config: dict[str, Any]
    segments: bool = True
    """Whether the model takes token_type_ids."""
    ids: tuple[str, ...] = ()
    """Ids of special tokens that the config names though they are null by default."""
    norm: float = 1.0
    """What norm weights vary around; MobileBERT's norms only scale, and at 1 its values would grow without end."""
    vocabulary_multiple: int = 1
    """The model's vocabulary is rounded up to this, so that the last ids belong to no token."""


ANY = "PreTrainedTokenizerFast"
SIZES = {"num_hidden_layers": 4, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48}
SHAPE = SIZES | {"max_position_embeddings": MAX_TOKENS}
ROBERTA = SHAPE | {"max_position_embeddings": MAX_TOKENS + 2, "type_vocab_size": 1}
DISTILBERT = {"n_layers": 3, "dim": 32, "n_heads": 4, "hidden_dim": 48, "max_position_embeddings": MAX_TOKENS}
ALBERT = SHAPE | {"embedding_size": 16, "num_hidden_groups": 1, "inner_group_num": 1}
BOTTLENECK = {"use_bottleneck": True, "intra_bottleneck_size": 32, "num_feedforward_networks": 2}
MOBILEBERT = SHAPE | {"hidden_size": 48, "embedding_size": 16, "normalization_type": "no_norm"} | BOTTLENECK
WINDOWS = {
    "local_attention": 8,
    "layer_types": [f"{kind}_attention" for kind in ("full", "sliding", "sliding", "full")],
}
LANGUAGES = {"languages": ["en_XX", "de_DE"], "default_language": "de_DE", "adapter_reduction_factor": 2}
CHARACTERS = {
    "pronunciation_vocab_size": 12,
    "pronunciation_embed_dim": 8,
    "shape_vocab_size": 14,
    "shape_embed_dim": 6,
}
DISTANCES = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "max_relative_positions": 24,
    "position_biased_input": False,
    "type_vocab_size": 0,
}
CONVOLUTIONS = {"num_attention_heads": 8, "embedding_size": 16, "head_ratio": 2, "conv_kernel_size": 5}
ENTITIES = {"entity_vocab_size": 7, "entity_emb_size": 8, "type_vocab_size": 2}
XLM = {
    "n_layers": 4,
    "emb_dim": 32,
    "n_heads": 4,
    "max_position_embeddings": MAX_TOKENS,
    "pad_index": 1,
    "sinusoidal_embeddings": False,
}
PROTEINS = SIZES | {
    "max_position_embeddings": MAX_TOKENS + 2,
    "position_embedding_type": "rotary",
    "token_dropout": True,
    "emb_layer_norm_before": False,
}

FAMILY: dict[str, Member] = {
    "bert": Member("wordpiece", "BertTokenizer", SHAPE),
    "roberta": Member("roberta", "RobertaTokenizer", ROBERTA, segments=False),
    "xlm-roberta": Member("xlm-roberta", "XLMRobertaTokenizer", ROBERTA, segments=False),
    "distilbert": Member("wordpiece", "DistilBertTokenizer", DISTILBERT, segments=False),
    "albert": Member("albert", "AlbertTokenizer", ALBERT),
    "electra": Member("wordpiece", "ElectraTokenizer", SHAPE | {"embedding_size": 16}),
    "mobilebert": Member("wordpiece", "MobileBertTokenizer", MOBILEBERT, norm=0.8),
    "modernbert": Member("modernbert", ANY, SHAPE | WINDOWS, segments=False, vocabulary_multiple=64),
    "camembert": Member("xlm-roberta", ANY, ROBERTA, segments=False),
    "convbert": Member("wordpiece", ANY, SHAPE | CONVOLUTIONS),
    "deberta": Member("roberta", ANY, SHAPE | DISTANCES, segments=False),
    "deberta-v2": Member(
        "xlm-roberta", ANY, SHAPE | DISTANCES | {"position_buckets": 8, "norm_rel_ebd": "layer_norm"}, segments=False
    ),
    "ernie": Member("wordpiece", ANY, SHAPE | {"use_task_id": True, "task_type_vocab_size": 3}),
    "esm": Member("xlm-roberta", ANY, PROTEINS, segments=False, ids=("pad_token_id", "mask_token_id")),
    "esmc": Member("xlm-roberta", ANY, SHAPE, segments=False),
    "eurobert": Member("modernbert", ANY, SHAPE | {"num_key_value_heads": 2, "classifier_pooling": "late"}, segments=False),
    "flaubert": Member("xlm-roberta", ANY, XLM, segments=False, ids=("pad_token_id",)),
    "gte": Member("xlm-roberta", ANY, SHAPE | {"type_vocab_size": 1}, segments=False),
    "jina_embeddings_v3": Member("xlm-roberta", ANY, SHAPE | {"type_vocab_size": 1}, segments=False),
    "luke": Member("roberta", ANY, ROBERTA | ENTITIES),
    "megatron-bert": Member("wordpiece", ANY, SHAPE),
    "mpnet": Member("xlm-roberta", ANY, ROBERTA | {"relative_attention_num_buckets": 32}, segments=False),
    "nomic_bert": Member("wordpiece", ANY, SHAPE),
    "rembert": Member("xlm-roberta", ANY, SHAPE | {"input_embedding_size": 16, "output_embedding_size": 40}),
    "roformer": Member("wordpiece", ANY, SHAPE | {"embedding_size": 16}),
    "roberta-prelayernorm": Member("roberta", ANY, ROBERTA, segments=False),
    "roc_bert": Member("wordpiece", ANY, SHAPE | CHARACTERS),
    "squeezebert": Member("wordpiece", ANY, SHAPE | {"embedding_size": 32}),
    "xlm": Member("xlm-roberta", ANY, XLM, segments=False, ids=("pad_token_id",)),
    "xlm-roberta-xl": Member("xlm-roberta", ANY, ROBERTA, segments=False),
    "xmod": Member("xlm-roberta", ANY, ROBERTA | LANGUAGES, segments=False),
}
"""By `model_type`."""

THREE = ("bert", "modernbert", "albert")
"""The architectures that differ most, the most different ones first. BERT is the plain one, ModernBERT has rotary positions,
windows and no biases, and ALBERT shares one layer below narrow embeddings: its graphs hold BERT's operations."""

VARIANTS: list[tuple[str, Mapping[str, Any]]] = [
    ("deberta", {"pos_att_type": ["c2p"]}),
    ("deberta", {"relative_attention": False, "position_biased_input": True, "type_vocab_size": 2}),
    ("deberta", {"max_relative_positions": -1, "legacy": False}),
    ("deberta-v2", {"conv_kernel_size": 3, "conv_act": "gelu", "legacy": False}),
    ("deberta-v2", {"share_att_key": False, "position_buckets": -1, "norm_rel_ebd": "none"}),
    ("esm", {"position_embedding_type": "absolute", "token_dropout": False, "emb_layer_norm_before": True}),
    ("gte", {"type_vocab_size": 0}),
    ("roc_bert", {"concat_input": False}),
    ("roformer", {"rotary_value": True, "embedding_size": 32}),
    ("convbert", {"num_groups": 2, "embedding_size": 32, "head_ratio": 4}),
    ("squeezebert", {"q_groups": 4, "output_groups": 1}),
    ("xmod", {"pre_norm": True, "ln_before_adapter": False, "adapter_layer_norm": True}),
    ("xmod", {"adapter_reuse_layer_norm": False, "default_language": "en_XX"}),
]
"""Settings of a config under which an architecture computes in another way."""

ACTIVATIONS = ("hidden_act", "hidden_activation", "activation")
SWITCHES = ("norm", "bias", "embed", "use_", "input", "bottleneck", "concat", "legacy", "rotary", "gelu_activation")
"""Parts of the names of switches under which a network has another shape; those of training and decoding have none."""
UNVARIED = frozenset({"add_cross_attention", "use_cache", "use_lang_emb", "summary_use_proj", "tie_word_embeddings"})
"""Switches that change nothing of a network that is hosted, or that are varied in any case."""
UNRUN = {"flaubert": frozenset({"pre_norm"}), "mobilebert": frozenset({"key_query_shared_bottleneck"})}
"""Switches under which transformers' own code can't run."""


def optional_settings(architecture: str) -> Iterator[dict[str, Any]]:
    """Yields, one by one, what a config of an architecture may say otherwise: one segment, embeddings of words that are not
    tied (or are), another activation, other places of norms and biases, each switch that its class of configs has."""
    from transformers import AutoConfig  # takes seconds to import, and the process that starts the others needs none

    config = AutoConfig.for_model(architecture, **FAMILY[architecture].config).to_dict()
    if FAMILY[architecture].segments and config.get("type_vocab_size", 1) > 1:
        yield {"type_vocab_size": 1}
    yield {"tie_word_embeddings": not config.get("tie_word_embeddings", True)}
    yield from ({key: "relu" if config[key] == "silu" else "silu"} for key in ACTIVATIONS if key in config)
    switches = (key for key, value in config.items() if isinstance(value, bool) and any(part in key for part in SWITCHES))
    fixed = UNVARIED | UNRUN.get(architecture, frozenset())
    yield from ({key: not config[key]} for key in switches if key not in fixed)
