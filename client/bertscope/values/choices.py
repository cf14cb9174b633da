"""Defines the names that arguments choose from, as types: an editor completes them, a type checker rejects any other.

>>> from typing import get_args
>>> get_args(Runtime)
('auto', 'torch', 'onnx')
"""

from typing import Literal

__all__ = [
    "AbsentText",
    "AttributionMethod",
    "AttributionUnit",
    "DataType",
    "Decoding",
    "LensNormalisation",
    "MapFormat",
    "Metric",
    "Mode",
    "ObjectScoring",
    "Order",
    "Others",
    "PatchDirection",
    "Picture",
    "PositionKind",
    "PositionScope",
    "Precision",
    "Quantity",
    "Runtime",
    "Scope",
    "Scoring",
    "Site",
    "StateLoss",
    "StatePooling",
    "StateQuantity",
    "StateUnit",
    "TargetScale",
    "TemplateChoice",
]

Mode = Literal["zero", "uniform", "mean", "scale"]
"""The contribution of changed heads."""
Scope = Literal["heads", "layers"]
"""The unit that a sweep changes at once."""
Metric = Literal[
    "loss",
    "accuracy",
    "reciprocal_rank",
    "divergence",
    "token_accuracy",
    "entity_f1",
    "label_f1",
    "score_difference",
    "answer_f1",
    "pearson",
    "spearman",
    "squared_error",
]
"""The metric of a sweep."""
Order = Literal["effect", "importance", "best_remaining"]
"""The order in which a greedy sweep removes heads."""
Scoring = Literal["within_word", "original", "whole_word"]
"""The pieces masked together with each piece of a text that is scored: the later ones of its word, none, or all of its word."""
ObjectScoring = Literal["single_entry", "candidates", "left_to_right", "confidence_first"]
"""The ways to score objects of several vocabulary entries in `query_facts`."""
TemplateChoice = Literal["first", "best", "mean"]
"""The template of a relation that its metrics are of: the first, the one with the highest P@1, or the mean over all."""
Precision = Literal["fp32", "tf32", "bf16", "fp16"]
"""Number formats in which a model can be loaded; tf32 on a GPU."""
Runtime = Literal["auto", "torch", "onnx"]
"""Libraries that run a model."""
DataType = Literal["float32", "float16", "bfloat16"]
"""Number formats of tensors in replies. numpy has no bfloat16: the client gives float32 of the same numbers."""
StateUnit = Literal["piece", "word", "span", "text"]
"""Units that rows of hidden states are of."""
StateQuantity = Literal["hidden", "head_contexts", "feed_forward_activations"]
"""Quantities of each token: hidden states, contexts of heads, or what the second matrix of the feed-forward block reads."""
StatePooling = Literal["first", "last", "mean", "max", "declared"]
"""How the states of the pieces of a word, a span or a text become one."""
Others = Literal["wait", "refuse"]
"""The treatment of calls for a device that a benchmark has for itself."""
Quantity = Literal[
    "weights",
    "norms",
    "layer_norms",
    "layer_output_norms",
    "rollout",
    "rollout_without_residual",
    "value_zeroing",
    "alti",
    "globenc",
]
"""Numbers of attention for each pair of tokens."""
MapFormat = Literal["float16", "float32", "uint8"]
"""How weights of maps travel in `inspect`: as numbers, or as 255 levels of 0 to 1."""
Picture = Literal["patterns", "statistics", "clusters"]
"""Pictures of a description of attention."""
StateLoss = Literal["cosine", "mse"]
"""The distance of a student's hidden states from its teacher's."""
LensNormalisation = Literal["none", "final"]
"""The states between layers that the masked-LM head reads: as they are, or after the model's last normalisation."""
Decoding = Literal["independent", "left_to_right", "confidence_first", "beam"]
"""The order in which several masks of a text are filled."""
AttributionMethod = Literal["shapley", "occlusion", "integrated_gradients", "gradient", "frozen"]
"""How a number is divided among words."""
AbsentText = Literal["mask", "deleted", "zero"]
"""The trace of a word that is absent: mask tokens, none, or states of zeros."""
AttributionUnit = Literal["word", "piece"]
"""The units that an attribution gives values to."""
TargetScale = Literal["logit", "log_probability", "probability"]
"""The scale of a number that is attributed."""
Site = Literal["state", "heads", "attention", "neurons", "feed_forward"]
"""A place in each layer where every token has a vector: the hidden state before the layer, contexts of heads before the output
projection, the output of the attention block, activations in the feed-forward block, or its output."""
PositionKind = Literal["all", "masks", "first", "special", "not_special"]
"""Positions that have a meaning in every text; "special" are tokens that the tokenizer added, and masks are not among them."""
PositionScope = Literal["each", "each_word", "together", "groups"]
"""The positions that a trace changes at a time: each token, each word with all its pieces, all, or named groups of words."""
PatchDirection = Literal["restore", "break"]
"""The run that a trace changes: the corrupted one, to restore the clean answer, or the clean one, to break it."""
