"""Bounds of the numbers in a config.json, for all architectures; checked before anything is built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope_service.encoders.refusals import refused
from bertscope_service.encoders.torch.architectures.architecture import MAX_LAYERS

MAX_LABELS = 10_000


@dataclass(frozen=True, slots=True)
class Bound:
    """The least and the largest value of a number; `whole` requires an integer, `open_low` excludes the least value."""

    low: float
    high: float
    whole: bool = True
    open_low: bool = False

    def holds(self, value: object) -> bool:
        if isinstance(value, bool) or not isinstance(value, int if self.whole else (int, float)):
            return False
        # Compared without conversion: a huge integer has no float. NaN compares false with everything.
        return (value > self.low if self.open_low else value >= self.low) and value <= self.high

    def __str__(self) -> str:
        kind = "whole numbers" if self.whole else "numbers"
        return f"{kind} {'above' if self.open_low else 'from'} {self.low:g} {'up ' if self.open_low else ''}to {self.high:.10g}"


LAYERS = Bound(1, MAX_LAYERS)
HEADS = Bound(1, 1024)
WIDTH = Bound(1, 65_536)
UNITS = Bound(1, 1_048_576)
POSITIONS = Bound(1, 1_048_576)
EPSILON = Bound(0, 1, whole=False, open_low=True)
SHARE = Bound(0, 1, whole=False)
SPREAD = Bound(0, 1000, whole=False)
THETA = Bound(0, 1e12, whole=False, open_low=True)

BOUNDS: Mapping[str, Bound] = {
    **dict.fromkeys(("num_hidden_layers", "n_layers", "n_layer", "num_hidden_groups", "inner_group_num"), LAYERS),
    "global_attn_every_n_layers": LAYERS,
    "num_feedforward_networks": Bound(1, 64),
    **dict.fromkeys(("num_attention_heads", "n_heads", "n_head"), HEADS),
    **dict.fromkeys(("hidden_size", "dim", "n_embd", "embedding_size", "intra_bottleneck_size", "true_hidden_size"), WIDTH),
    **dict.fromkeys(("intermediate_size", "hidden_dim"), UNITS),
    "vocab_size": Bound(1, 4_194_304),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "local_attention", "sliding_window"), POSITIONS),
    "type_vocab_size": Bound(0, 1024),
    "num_labels": Bound(0, MAX_LABELS),
    "pad_token_id": Bound(0, 4_194_303),
    **dict.fromkeys(("layer_norm_eps", "norm_eps"), EPSILON),
    **dict.fromkeys(
        ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout", "classifier_dropout_prob"), SHARE
    ),
    **dict.fromkeys(("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout", "summary_last_dropout"), SHARE),
    **dict.fromkeys(("summary_first_dropout", "embedding_dropout", "mlp_dropout"), SHARE),
    **dict.fromkeys(("initializer_range", "initializer_cutoff_factor"), SPREAD),
    **dict.fromkeys(("rope_theta", "global_rope_theta", "local_rope_theta"), THETA),
}
"""The bounds by key. Real models lie far inside; values outside would only take gigabytes, or hours."""


def check_numbers(path: Path, config: Mapping[str, Any]) -> None:
    """Raises FailedPrecondition for a number out of bounds; the reader checks null and missing ones."""
    for key, bound in BOUNDS.items():
        value = config.get(key)
        if value is not None and not bound.holds(value):
            raise refused(path, key, value, f"allowed are {bound}")
    for key in ("rope_parameters", "rope_scaling"):
        _check_rotation(path, key, config.get(key))


def _check_rotation(path: Path, field: str, value: Any) -> None:
    """Checks that every number in the settings of rotary positions is finite and positive."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check_rotation(path, f"{field}.{key}", inner)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            _check_rotation(path, f"{field}[{index}]", inner)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and not THETA.holds(value):
        raise refused(path, field, value, f"allowed are {THETA}")
