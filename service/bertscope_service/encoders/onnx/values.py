"""Defines the names and shapes of the values in exported graphs at which they can be cut."""

from __future__ import annotations

IDS, SEGMENTS, VALID, POSITIONS = "ids", "segments", "valid", "positions"
"""Inputs: int64 [rows, length] twice, bool [rows, length], int64 [rows, n]."""

KEEP, UNIFORM, CONSTANT = "keep", "uniform", "constant"
"""Inputs of the analysis graph: gates [rows, layers, heads] twice, [rows, layers, heads, head_size]."""

HIDDEN = "hidden"
"""Hidden states before each layer, and after the last one: [rows, length, hidden_size]."""

OWN, GATED = "own", "gated"
"""Contexts A V of a layer before and after its gates: [rows, length, heads, head_size]."""

MEAN = "mean"
"""The mean of V over the real tokens: [rows, heads, head_size]."""

MAPS = "maps"
"""Attention maps of a layer: [rows, heads, length, length]."""

LAST = "last"
"""Hidden states after the last layer, at `positions`: [rows, n, hidden_size]."""

LOGITS = "logits"
"""Scores of the masked-LM head at `positions`: [rows * n, vocabulary_size]."""

LABELS = "labels"
"""Scores of the sequence head: [rows, labels], or [rows, 1] if it gives a value."""

TOKEN_LABELS = "token_labels"
"""Scores of the token classification head: [rows, length, labels]."""

ANSWERS = "answers"
"""Scores of the question answering head, of start and end: [rows, length, 2]."""

NEXT_SENTENCE = "next_sentence"
"""Scores of the next-sentence head: [rows, 2]."""

HEADS = (LAST, LOGITS, LABELS, TOKEN_LABELS, ANSWERS, NEXT_SENTENCE)
"""Values that the fast graph alone gives: what heads read and give."""

ANALYSIS, FAST, WEIGHTS = "analysis.onnx", "fast.onnx", "weights.bin"
"""Files of an export."""


def at(name: str, layer: int) -> str:
    """Returns the name of a layer's value, "maps.3"."""
    return f"{name}.{layer}"
