"""Checkpoints whose files lie: each one a change to a good folder, and what the error must name."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from tests.support.edited_files import edit, edit_bytes, edit_header, edit_tensors

HUGE = 10**9
NAN, INFINITY = math.nan, math.inf


@dataclass(frozen=True)
class Lie:
    """A change of a file by one of these functions. `words` are what the error says, beside the name of the file. A lie in the
    weights shows in their digest; `reason` is that of the error, `architecture` the only one that it makes sense for."""

    name: str
    file: str
    change: Callable[[Any], Any]
    words: tuple[str, ...]
    by: Callable[[Path, Callable[[Any], Any]], None] = edit
    reason: str = "SOURCE_UNREADABLE"
    architecture: str = "bert"

    @property
    def in_weights(self) -> bool:
        return self.file.endswith("safetensors")

    def tell(self, folder: Path) -> None:
        self.by(folder / self.file, self.change)


def in_file(file: str, name: str, change: Callable[[Any], Any], *words: str, **fields: Any) -> Lie:
    return Lie(name, file, change, words, **fields)


in_tokenizer = partial(in_file, "tokenizer.json")
in_its_settings = partial(in_file, "tokenizer_config.json")
in_weights = partial(in_file, "model.safetensors", by=edit_tensors)
in_header = partial(in_file, "model.safetensors", by=edit_header)
in_bytes = partial(in_file, "model.safetensors", by=edit_bytes)


def says(key: str, value: Any, *words: str, architecture: str = "bert") -> Lie:
    """A config.json with another value."""
    shown = value if len(repr(value)) < 20 else "..."
    change: Callable[[Any], Any] = lambda config: config.update({key: value})  # noqa: E731
    return Lie(f"{architecture} {key}={shown!r}", "config.json", change, words or (key,), architecture=architecture)


WORDS = "bert.embeddings.word_embeddings.weight"
QUERY = "bert.encoder.layer.0.attention.self.query.weight"


def _not_finite(value: float, dtype: torch.dtype) -> Callable[[dict[str, torch.Tensor]], None]:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            tensors[name] = tensor.to(dtype)
        tensors[QUERY][3, 4] = value

    return change


def _set(tensors: dict[str, torch.Tensor], name: str, tensor: torch.Tensor) -> None:
    tensors[name] = tensor.clone()


def _vocabulary_id(value: object) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        vocabulary = content["model"]["vocab"]
        vocabulary[[*vocabulary][50]] = value

    return change


def _swap(content: Any) -> None:
    vocabulary = content["model"]["vocab"]
    first, last = [*vocabulary][2], [*vocabulary][-1]
    vocabulary[first], vocabulary[last] = vocabulary[last], vocabulary[first]


def _added_id(value: object) -> Callable[[Any], None]:
    def change(content: Any) -> None:
        content["added_tokens"][-1]["id"] = value

    return change


def _template(content: Any) -> None:
    content["post_processor"]["special_tokens"]["[CLS]"]["ids"] = [2**31]


def _segment(content: Any) -> None:
    content["post_processor"]["pair"][-1]["SpecialToken"]["type_id"] = 7


CONFIGS = [
    *(says("num_hidden_layers", value) for value in (-1, 0, 3, 5000, HUGE, 2**70, INFINITY, "4", 4.5, True, None)),
    says("num_hidden_layers", 5, "16 of the weights are missing"),
    *(says("hidden_size", value) for value in (-1, 0, HUGE, "32")),
    says("hidden_size", 64, "[264, 32]", "[264, 64]"),
    *(says("num_attention_heads", value) for value in (-4, 0, 3, HUGE)),
    *(says("intermediate_size", value) for value in (-1, HUGE)),
    *(says("vocab_size", value) for value in (-1, 0, 2**31)),
    says("vocab_size", 200, "[264, 32]", "[200, 32]"),
    *(says("max_position_embeddings", value) for value in (-1, 0, HUGE)),
    says("max_position_embeddings", 100, "[64, 32]", "[100, 32]"),
    *(says("type_vocab_size", value) for value in (-1, 0, HUGE)),
    *(says("layer_norm_eps", value) for value in (NAN, INFINITY, -1e-12, 0.0, 5.0, "small", {"__float__": "NaN"})),
    *(says("pad_token_id", value) for value in (-1, 264, HUGE, "x")),
    *(says("hidden_dropout_prob", value) for value in (NAN, -0.1, 5, "x")),
    *(says("initializer_range", value) for value in (NAN, -1.0)),
    says("hidden_act", "nope", "hidden_act", "'nope'", "gelu"),
    says("hidden_act", 5, "hidden_act"),
    says("pruned_heads", {"0": [99]}),
    says("pruned_heads", {"0": [1]}),
    *(
        says("bertscope_pruned_heads", value)
        for value in ({"0": [99]}, {"99": [0]}, {"0": [1, 1]}, {"0": "x"}, [1], {"-1": [0]})
    ),
    says("bertscope_pruned_heads", {"0": [1]}, QUERY),
    *(says("bertscope_kept_shares", value) for value in ([1, 2], [NAN] * 4, [1.0], "x")),
    *(says("bertscope_quantization", value) for value in ({"kind": "int8"}, {"kind": "weight_only", "bits": 99}, 5)),
    says("bertscope_of_tomorrow", 1),
    says("chunk_size_feed_forward", 3),
    says("per_layer_config", {"0": {"hidden_size": 5}}),
    says("quantization_config", {"quant_method": "gptq", "bits": 4}),
    says("is_encoder_decoder", True),
    *(says("architectures", value) for value in (5, "BertForMaskedLM", [None])),
    says("id2label", {str(number): f"label {number}" for number in range(20_000)}, "id2label", "20000", "10000"),
    *(says("id2label", value, "config.json") for value in ([1], "x", {"a": "b"})),
    *(says("num_labels", value) for value in (-1, 200_000, "x")),
    says("problem_type", "guessing"),
    says("dtype", "Tensor"),
    says("to_dict", 5),
    says("__class__", 5),
    says("num_hidden_layers", HUGE, architecture="albert"),
    says("num_hidden_groups", 9, architecture="albert"),
    says("inner_group_num", 300, "inner_group_num", architecture="albert"),
    says("num_hidden_layers", HUGE, architecture="modernbert"),
    says("layer_types", ["full_attention"], "layer_types", architecture="modernbert"),
    says("layer_types", ["nope"] * 4, "config.json", architecture="modernbert"),
    says("global_rope_theta", NAN, architecture="modernbert"),
    says("local_attention", -8, architecture="modernbert"),
    says("true_hidden_size", 7, architecture="mobilebert"),
    says("num_feedforward_networks", HUGE, architecture="mobilebert"),
    says("hidden_size", 64, "[264, 64]", architecture="distilbert"),
    says("pad_token_id", None, architecture="roberta"),
]

TOKENIZERS = [
    in_tokenizer("a tokenizer cut short", lambda content: content[: len(content) // 2], "cut short", by=edit_bytes),
    in_tokenizer("an empty tokenizer", lambda _: b"", "can't be read", by=edit_bytes),
    *(
        in_tokenizer(f"an id of {value!r}", _vocabulary_id(value), "model.vocab", repr(value))
        for value in (-1, 2**31, 264, "x", None, 1.5)
    ),
    in_tokenizer("an id that is there twice", _vocabulary_id(7), "is 7", "too"),
    in_tokenizer("two ids that are swapped", _swap, "'[CLS]'", "the vocabulary says"),
    *(in_tokenizer(f"an added id of {value!r}", _added_id(value), "added_tokens[4].id") for value in (-1, 2**31, "x")),
    in_tokenizer("a special id that is none", _template, "post_processor", str(2**31)),
    in_tokenizer("a segment that is none", _segment, "type_id is 7"),
    in_tokenizer("no vocabulary", lambda content: content.update(model=5), "model is 5"),
    *(
        in_its_settings(
            f"model_max_length {value!r}",
            lambda content, value=value: content.update(model_max_length=value),
            "model_max_length",
        )
        for value in (-1, 0, NAN, "x")
    ),
    in_its_settings(
        "an added token far away",
        lambda content: content.update(added_tokens_decoder={str(2**31): {"content": "[X]"}}),
        "added_tokens_decoder",
    ),
    in_tokenizer(
        "albert, a list that is longer",
        lambda content: content["model"]["vocab"].extend([["x", 0.0]] * 9),
        "model.vocab",
        architecture="albert",
    ),
    in_tokenizer("albert, a special id that is none", _template, "post_processor", architecture="albert"),
]

WEIGHTS = [
    in_bytes("empty weights", lambda _: b"", "is empty"),
    in_bytes("weights of five bytes", lambda content: content[:5], "header"),
    in_bytes("weights cut short", lambda content: content[: len(content) // 2], "its size"),
    in_bytes("weights with more behind them", lambda content: content + b"x", "its size"),
    in_bytes("a header of 2^63 bytes", lambda content: (2**63).to_bytes(8, "little") + content[8:], str(2**63)),
    in_bytes("a header of no bytes", lambda content: bytes(8) + content[8:], "header"),
    in_bytes("a header that is not JSON", lambda content: content[:8] + b"\xff" + content[9:], "header"),
    in_header("a shape that is larger", lambda header: header[WORDS].update(shape=[10**9, 10**9]), WORDS),
    in_header("a negative shape", lambda header: header[WORDS].update(shape=[-264, -32]), WORDS),
    in_header("a shape of words", lambda header: header[WORDS].update(shape="264"), WORDS),
    in_header("another number format", lambda header: header[WORDS].update(dtype="F7"), "F7"),
    in_header("places that overlap", lambda header: header[WORDS].update(data_offsets=[0, 264 * 32 * 4]), "place"),
    in_header("an entry that is none", lambda header: header.update({WORDS: 5}), WORDS),
    in_header("a name less", lambda header: header.pop(WORDS), "place"),
    in_weights(
        "a weight that is missing", lambda tensors: _set(tensors, "other", tensors.pop(QUERY)), QUERY, "1 of the weights"
    ),
    in_weights(
        "a weight of another shape", lambda tensors: _set(tensors, QUERY, tensors[QUERY][:5]), QUERY, "[5, 32]", "[32, 32]"
    ),
    in_weights("a weight of integers", lambda tensors: _set(tensors, QUERY, tensors[QUERY].to(torch.int64)), QUERY, "I64"),
    in_weights("a weight twice", lambda tensors: _set(tensors, QUERY.removeprefix("bert."), tensors[QUERY]), "the same weight"),
    *(
        in_weights(
            f"{value} in {dtype}".replace("torch.", ""),
            _not_finite(value, dtype),
            QUERY,
            "NaN or infinite",
            reason="WEIGHTS_NOT_FINITE",
        )
        for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
        for value in (NAN, INFINITY, -INFINITY)
    ),
    in_weights("too large for float32", _not_finite(1e300, torch.float64), QUERY, "1e+300", reason="WEIGHTS_TOO_LARGE"),
]

LIES = [*CONFIGS, *TOKENIZERS, *WEIGHTS]

CLASSIFIERS = [
    says("id2label", {"0": "a", "1": "b"}, "classifier.weight", "2 labels"),
    says("id2label", {"0": "a", "1": "b", "2": "c", "3": "d"}, "classifier.weight", "4 labels"),
    says("id2label", {"0": "a", "1": "b", "5": "c"}, "id2label"),
    says("id2label", {"0": "a", "1": "b", "2": ["c"]}, "id2label"),
    says("id2label", {"0": "a", "1": "b", "2": "c" * 2_000_000}, "id2label"),
]
"""What lies about the labels of a checkpoint that has three."""

_kinds = {(lie.file, lie.reason, lie.architecture): lie for lie in LIES}
FEW = list({lie.name: lie for lie in (*_kinds.values(), *LIES[::12])}.values())
"""One of every kind, and every twelfth."""
