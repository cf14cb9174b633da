"""The rate of the torch runtime over transformers' own models, at base shape with random weights: masked-LM logits at every
position, and at one mask a text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from bertscope_service.encoders.base import Encoder
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.sequences import TokenSequence
from bertscope_service.encoders.torch.architectures import ARCHITECTURES
from bertscope_service.encoders.torch.random_models import random_encoder, random_model

from benchmarks.lib.measure import Claim, in_turn, per_second

TEXTS, TOKENS = 8, 128
LAYERS = {"num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}
RELATIVE = {
    "relative_attention": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "max_position_embeddings": 512,
    "max_relative_positions": -1,
}
"""Settings of DeBERTa v3 base (He et al. 2021)."""

PROTEINS = {
    "vocab_size": 33,
    "pad_token_id": 1,
    "mask_token_id": 32,
    "position_embedding_type": "rotary",
    "token_dropout": True,
    "emb_layer_norm_before": False,
    "max_position_embeddings": 1026,
}
SHAPES: Mapping[str, Mapping[str, object]] = {
    "deberta-v2": LAYERS | RELATIVE | {"vocab_size": 30_000},
    "mpnet": LAYERS | {"max_position_embeddings": 514},
    "esm": LAYERS | PROTEINS,
}


def claims(rounds: int) -> Iterator[Claim]:
    """Texts per second of each architecture, both sides in turn, on as many threads as PyTorch takes."""
    for name, settings in SHAPES.items():
        encoder = random_encoder(name, settings, device=torch.device("cpu"), precision="fp32")
        theirs = own_model(name, settings)
        ids = torch.arange(4, 4 + TOKENS).remainder(28).add(4).repeat(TEXTS, 1)
        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        batch = [TokenSequence(row, [0] * TOKENS) for row in ids.tolist()]
        for what, positions in (("logits of all tokens", TOKENS), ("logits of one token a text", 1)):
            pair = in_turn(lambda: ours_run(encoder, batch, positions), lambda: theirs_run(theirs, inputs), rounds)  # noqa: B023
            yield pair.claim(f"{name}, {TEXTS} x {TOKENS} tokens, {what}", "at least 1", per_second(TEXTS, "texts"))


def own_model(name: str, settings: Mapping[str, object]) -> torch.nn.Module:
    """transformers' own model with the attention that it chooses: fused where it can."""
    model = random_model(name, settings)
    kind = ARCHITECTURES[name].class_of(Head.MASKED_LM)
    own = kind._from_config(kind.config_class(**settings), dtype=torch.float32).eval()
    own.load_state_dict(model.state_dict())
    return own.requires_grad_(False)  # type: ignore[no-any-return]


@torch.inference_mode()
def ours_run(encoder: Encoder, batch: list[TokenSequence], positions: int) -> torch.Tensor:
    """Scores at the first positions of each text."""
    only = torch.arange(positions).repeat(len(batch), 1)
    state = encoder.begin(batch)
    encoder.advance(state, encoder.shape.layers, only=only)
    rows = torch.arange(len(batch)).repeat_interleave(positions)
    return encoder.logits(state, rows, torch.arange(positions).repeat(len(batch)))


@torch.inference_mode()
def theirs_run(model: torch.nn.Module, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor:
    """Scores at every position, which is all that transformers gives."""
    scores: torch.Tensor = model(**inputs).logits
    return scores
