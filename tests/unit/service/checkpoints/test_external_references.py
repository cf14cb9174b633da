"""The JSON files of a model don't make anybody read other files than those that were looked at."""

import json
from pathlib import Path

import pytest
from bertscope_service.checkpoints.external_references import check_tokenizer
from bertscope_service.checkpoints.sources import inspect
from bertscope_service.errors import FailedPrecondition

CONFIGS = [{"transformers_weights": "other.safetensors"}, {"configuration_files": ["config.4.0.0.json"]}]
TOKENIZERS = [
    {"vocab": "/etc/passwd"},
    {"merges": "merges.txt"},
    {"fast_tokenizer_files": ["tokenizer.4.0.json"]},
    {"gguf_file": "x.gguf"},
    {"init_inputs": ["/etc/passwd"]},
    {"tokenizer_object": {}, "gguf_file": "x"},
]
GOOD = {
    "vocab": {"a": 0},
    "merges": [],
    "init_inputs": [],
    "vocab_file": "/home/somebody/vocab.txt",
    "tokenizer_class": "BertTokenizer",
}
MAP = {"mask_token": "[MASK]", "additional_special_tokens": [], "image_token": {"content": "<image>"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    return tmp_path


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: next(iter(config)))
def test_a_config_that_names_other_files(folder: Path, config: dict[str, object]) -> None:
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "bert"}))
    with pytest.raises(FailedPrecondition, match=f"config.json sets {next(iter(config))}") as caught:
        inspect(folder)
    assert caught.value.reason == "SOURCE_UNREADABLE"


@pytest.mark.parametrize("config", TOKENIZERS, ids=lambda config: next(iter(config)))
def test_a_tokenizer_config_that_names_other_files(folder: Path, config: dict[str, object]) -> None:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(FailedPrecondition, match=r"tokenizer_config\.json sets "):
        check_tokenizer(folder)


@pytest.mark.parametrize("key", ["vocab_file", "tokenizer_file", "vocab", "name_or_path"])
def test_a_map_of_special_tokens_has_nothing_but_those(folder: Path, key: str) -> None:
    (folder / "special_tokens_map.json").write_text(json.dumps(MAP | {key: "/etc/passwd"}))
    with pytest.raises(FailedPrecondition, match=f"special_tokens_map.json sets {key}"):
        check_tokenizer(folder)


def test_what_tokenizers_usually_say(folder: Path) -> None:
    check_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text(json.dumps(GOOD))
    (folder / "special_tokens_map.json").write_text(json.dumps(MAP))
    check_tokenizer(folder)


@pytest.mark.parametrize("name", ["shard-00000-model-00001-of-00001.safetensors", "adapter_config.json"])
def test_other_weights_beside_the_weights(folder: Path, name: str) -> None:
    (folder / name).write_bytes(b"weights")
    with pytest.raises(FailedPrecondition, match="beside its weights"):
        inspect(folder)
