# Generated from uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Builds the requests for cloze queries: `fill_mask`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import cloze_pb2
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions, intervention_fields
from bertscope.values.choices import Decoding
from bertscope.values.messages import Numbers, enum_value
from bertscope.values.models import Model, model_name


def fill_mask_request(
    *,
    model: str | Model | None = None,
    top_k: SupportsIndex | None = None,
    candidates: str | Iterable[str] | None = None,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    truncate: bool = False,
    decoding: Decoding | None = None,
    beam_width: SupportsIndex | None = None,
    max_pieces: SupportsIndex | None = None,
    piece_ids: Numbers | None = None,
    logits: bool = False,
    next_sentence: bool = False,
) -> cloze_pb2.FillMaskRequest:
    """Returns the request of FillMask, without its items."""
    return cloze_pb2.FillMaskRequest(
        model=model_name("model", model),
        top_k=None if top_k is None else validation.uint32("top_k", top_k),
        candidates=validation.some_texts("candidates", candidates),
        **intervention_fields(interventions),
        truncate=validation.flag("truncate", truncate),
        reference_texts=validation.texts("reference_texts", reference_texts),
        decoding=enum_value("decoding", decoding, Decoding, cloze_pb2.MaskDecoding),
        beam_width=None if beam_width is None else validation.uint32("beam_width", beam_width),
        max_pieces=None if max_pieces is None else validation.uint32("max_pieces", max_pieces),
        piece_ids=validation.uint32s("piece_ids", piece_ids),
        logits=validation.flag("logits", logits),
        next_sentence=validation.flag("next_sentence", next_sentence),
    )
