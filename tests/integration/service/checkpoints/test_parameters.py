"""The names and shapes that a config asks for are those of the model that transformers makes of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from bertscope_service.checkpoints.config import CheckedConfig
from bertscope_service.checkpoints.weights import expected
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES

VARIANTS: dict[str, list[dict[str, Any]]] = {
    "albert": [{}, {"num_hidden_groups": 2, "num_hidden_layers": 4, "inner_group_num": 2}],
    "distilbert": [{}, {"sinusoidal_pos_embds": True}],
    "electra": [{}, {"embedding_size": 256}],
    "mobilebert": [
        {},
        {"use_bottleneck": False},
        {"use_bottleneck_attention": True},
        {"key_query_shared_bottleneck": False},
        {"num_feedforward_networks": 1},
        {"trigram_input": False},
        {"normalization_type": "layer_norm"},
        {"classifier_activation": False},
    ],
    "modernbert": [
        {},
        {"norm_bias": True},
        {"attention_bias": True},
        {"mlp_bias": True},
        {"decoder_bias": False},
        {"classifier_bias": True},
    ],
}
CASES = [(name, variant, labels) for name in ARCHITECTURES for variant in VARIANTS.get(name, [{}]) for labels in (0, 3)]


@pytest.mark.slow
@pytest.mark.parametrize(("architecture", "variant", "labels"), CASES, ids=str)
def test_the_parameters_of_an_architecture(architecture: str, variant: dict[str, Any], labels: int) -> None:
    kind = ARCHITECTURES[architecture]
    model_class = kind.class_of(Head.SEQUENCE if labels else Head.MASKED_LM)
    sizes = {"num_hidden_layers": 3, "vocab_size": 100, "pad_token_id": 0, "architectures": [model_class.__name__]}
    names = {"id2label": {number: f"label {number}" for number in range(labels)}} if labels else {}
    config = model_class.config_class(**{**sizes, **names, **variant})
    with torch.device("meta"):
        model = model_class(config)
    true = {name: tuple(values.shape) for name, values in model.named_parameters(remove_duplicate=False)}
    assert expected(Path("config.json"), CheckedConfig(config, {}, None), architecture, len(true)) == true
