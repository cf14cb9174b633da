"""What people host passes: the published configs of every architecture, with the shapes and names that their files have."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.check import check_source
from bertscope_service.checkpoints.config import check_config
from bertscope_service.checkpoints.sources import locate
from bertscope_service.checkpoints.weights import check_weights
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.weight_headers import read_headers

BERT = {
    "architectures": ["BertForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "gradient_checkpointing": False,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "transformers_version": "4.6.0.dev0",
    "type_vocab_size": 2,
    "use_cache": True,
    "vocab_size": 30522,
}
POOLER = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
    "vocab_size": 119547,
}
ROBERTA = {
    "architectures": ["RobertaForMaskedLM"],
    "attention_probs_dropout_prob": 0.1,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "initializer_range": 0.02,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "model_type": "roberta",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
PUBLISHED: dict[str, dict[str, Any]] = {
    "bert-base-uncased": BERT,
    "bert-base-multilingual-cased": BERT | POOLER,
    "roberta-base": ROBERTA,
    "xlm-roberta-base": ROBERTA
    | {"architectures": ["XLMRobertaForMaskedLM"], "model_type": "xlm-roberta", "output_past": True, "vocab_size": 250002},
    "distilbert-base-uncased-finetuned-sst-2-english": {
        "activation": "gelu",
        "architectures": ["DistilBertForSequenceClassification"],
        "attention_dropout": 0.1,
        "dim": 768,
        "dropout": 0.1,
        "finetuning_task": "sst-2",
        "hidden_dim": 3072,
        "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
        "initializer_range": 0.02,
        "label2id": {"NEGATIVE": 0, "POSITIVE": 1},
        "max_position_embeddings": 512,
        "model_type": "distilbert",
        "n_heads": 12,
        "n_layers": 6,
        "output_past": True,
        "pad_token_id": 0,
        "qa_dropout": 0.1,
        "seq_classif_dropout": 0.2,
        "sinusoidal_pos_embds": False,
        "tie_weights_": True,
        "vocab_size": 30522,
    },
    "albert-base-v2": {
        "architectures": ["AlbertForMaskedLM"],
        "attention_probs_dropout_prob": 0,
        "bos_token_id": 2,
        "classifier_dropout_prob": 0.1,
        "down_scale_factor": 1,
        "embedding_size": 128,
        "eos_token_id": 3,
        "gap_size": 0,
        "hidden_act": "gelu_new",
        "hidden_dropout_prob": 0,
        "hidden_size": 768,
        "initializer_range": 0.02,
        "inner_group_num": 1,
        "intermediate_size": 3072,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "model_type": "albert",
        "net_structure_type": 0,
        "num_attention_heads": 12,
        "num_hidden_groups": 1,
        "num_hidden_layers": 12,
        "num_memory_blocks": 0,
        "pad_token_id": 0,
        "type_vocab_size": 2,
        "vocab_size": 30000,
    },
    "mobilebert-uncased": {
        "attention_probs_dropout_prob": 0.1,
        "classifier_activation": False,
        "embedding_size": 128,
        "hidden_act": "relu",
        "hidden_dropout_prob": 0.0,
        "hidden_size": 512,
        "initializer_range": 0.02,
        "intermediate_size": 512,
        "intra_bottleneck_size": 128,
        "key_query_shared_bottleneck": True,
        "layer_norm_eps": 1e-12,
        "max_position_embeddings": 512,
        "model_type": "mobilebert",
        "normalization_type": "no_norm",
        "num_attention_heads": 4,
        "num_feedforward_networks": 4,
        "num_hidden_layers": 24,
        "pad_token_id": 0,
        "trigram_input": True,
        "true_hidden_size": 128,
        "type_vocab_size": 2,
        "use_bottleneck": True,
        "use_bottleneck_attention": False,
        "vocab_size": 30522,
    },
    "ModernBERT-base": {
        "architectures": ["ModernBertForMaskedLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": 50281,
        "classifier_activation": "gelu",
        "classifier_bias": False,
        "classifier_dropout": 0.0,
        "classifier_pooling": "mean",
        "cls_token_id": 50281,
        "decoder_bias": True,
        "deterministic_flash_attn": False,
        "embedding_dropout": 0.0,
        "eos_token_id": 50282,
        "global_attn_every_n_layers": 3,
        "global_rope_theta": 160000.0,
        "gradient_checkpointing": False,
        "hidden_activation": "gelu",
        "hidden_size": 768,
        "initializer_cutoff_factor": 2.0,
        "initializer_range": 0.02,
        "intermediate_size": 1152,
        "layer_norm_eps": 1e-05,
        "local_attention": 128,
        "local_rope_theta": 10000.0,
        "max_position_embeddings": 8192,
        "mlp_bias": False,
        "mlp_dropout": 0.0,
        "model_type": "modernbert",
        "norm_bias": False,
        "norm_eps": 1e-05,
        "num_attention_heads": 12,
        "num_hidden_layers": 22,
        "pad_token_id": 50283,
        "position_embedding_type": "absolute",
        "reference_compile": None,
        "sep_token_id": 50282,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
        "transformers_version": "4.47.0.dev0",
        "vocab_size": 50368,
    },
}
"""config.json as published. The weights of all these are far too large for a test, so files have their headers alone."""


def write_header(file: Path, shapes: Mapping[str, tuple[int, ...]], dtype: str = "F32", width: int = 4) -> None:
    """A safetensors file of these tensors, all holes: it takes no room on the disk."""
    header, place = dict[str, Any](), 0
    for name, shape in shapes.items():
        size = torch.Size(shape).numel() * width
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [place, place + size]}
        place += size
    written = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with file.open("wb") as opened:
        opened.write(struct.pack("<Q", len(written)) + written)
        opened.truncate(8 + len(written) + place)


@pytest.mark.parametrize(
    ("headless", "old_names"), [(False, False), (True, True)], ids=["whole", "headless, TensorFlow's names"]
)
@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_checkpoint_passes(tmp_path: Path, name: str, headless: bool, old_names: bool) -> None:
    written = PUBLISHED[name]
    kind = ARCHITECTURES[written["model_type"]]
    model_class = kind.class_of(Head.SEQUENCE if "id2label" in written else Head.MASKED_LM)
    with torch.device("meta"):
        model = model_class(model_class.config_class(**written))
    shapes = {key: tuple(values.shape) for key, values in (model.base_model if headless else model).state_dict().items()}
    if old_names:
        shapes = {
            key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): shape
            for key, shape in shapes.items()
        }
    shapes |= {"cls.seq_relationship.weight": (2, 768), "bert.embeddings.position_ids": (1, 512)}
    write_header(tmp_path / "model.safetensors", shapes)
    (tmp_path / "config.json").write_text(json.dumps(written))
    path = tmp_path / "config.json"
    config = check_config(path, written, written["model_type"])
    used = check_weights(path, config, written["model_type"], read_headers([tmp_path / "model.safetensors"]))
    assert len(used) == len(shapes) - 2


def test_the_embedded_model_passes() -> None:
    assert len(check_source(locate("bertscope-mini", "", lambda _: None))) > 100
