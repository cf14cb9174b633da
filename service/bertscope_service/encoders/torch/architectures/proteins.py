"""Architectures of protein models, with rotary positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch

from bertscope_service.encoders.torch.architectures.architecture import Fault
from bertscope_service.encoders.torch.architectures.rotary import GatedRotary, Rotary


class Esmc(GatedRotary):
    """ESM Cambrian, of proteins: queries and keys are normalised, and what a block adds is divided by a constant."""

    masked_lm = "EsmcForMaskedLM"
    base = "esmc"
    head = "lm_head"
    reads_segments = False
    in_stream = False
    norm = None
    end_norm = None
    last_norm = "norm"
    unprunable = "queries and keys are normalised over all heads together"
    fixed_layers = "what each of them adds is divided by a constant of their number"

    def label_tokens(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.model.score(hidden)

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.embed_tokens(ids)

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)


class Esm(Rotary):
    """ESM-1b and ESM-2, of proteins (Rives et al. 2021, Lin et al. 2023): positions are rotations or learned, and masks are
    zeros that the scale of the other embeddings makes up for."""

    masked_lm = "EsmForMaskedLM"
    base = "esm"
    head = "lm_head"
    rotations = "rotary_embeddings"
    layer_list = "encoder.layer"
    reads_segments = False
    positions_follow_padding = True
    embeds_unpadded = False  # a scale of the embeddings depends on all tokens of a row
    position_types = ("absolute", "rotary")
    norm = None
    read_norm = "LayerNorm"
    end_norm = None
    last_norm = "encoder.emb_layer_norm_after"
    unread = ("pooler", "contact_head", "embeddings.position_embeddings")
    # The same frequencies were saved in every layer.
    former_names: ClassVar[Mapping[str, str]] = {
        r"encoder\.layer\.(0|\*)\.attention\.self\.(rotary_embeddings\.inv_freq)$": r"\2"
    }

    @classmethod
    def faults(cls, config: Any) -> Iterator[Fault]:
        yield from super().faults(config)
        mask = config.mask_token_id
        if config.token_dropout and not (type(mask) is int and 0 <= mask < config.vocab_size):
            yield Fault("mask_token_id", mask, f"with token_dropout it must be an index below vocab_size, {config.vocab_size}")

    def embed(
        self, ids: torch.Tensor, segments: torch.Tensor, valid: torch.Tensor | None, places: torch.Tensor | None = None
    ) -> torch.Tensor:
        return self.encoder.embeddings(input_ids=ids, attention_mask=valid)

    def rotate(self, hidden: torch.Tensor, places: torch.Tensor | None, *kind: str) -> Any:
        return super().rotate(hidden, places) if self.model.config.position_embedding_type == "rotary" else None

    def head_modules(self) -> tuple[Any, Any, Any, Any]:
        head = self.model.lm_head
        return head.dense, torch.nn.functional.gelu, head.layer_norm, head.decoder

    def drop_layers(self, kept: Sequence[int]) -> None:
        contacts = self.encoder.contact_head.regression
        weight = contacts.weight.detach().unflatten(1, (-1, self.heads))[:, list(kept)].flatten(1)
        contacts.weight = torch.nn.Parameter(weight, requires_grad=False)
        contacts.in_features = weight.shape[1]

    def decoder_bias(self) -> torch.Tensor:
        bias: torch.Tensor = self.model.lm_head.bias
        return bias

    def classify(self, hidden: torch.Tensor, valid: torch.Tensor | None) -> torch.Tensor:
        return self.model.classifier(hidden)
