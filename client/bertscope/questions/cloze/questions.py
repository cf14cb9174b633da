"""The request of FillMask."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex

from bertscope.v1 import cloze_pb2
from bertscope.values import validation
from bertscope.values.choices import Decoding
from bertscope.values.messages import Interventions, Numbers, head_interventions, values
from bertscope.values.models import Model, model_name

DECODINGS = values(Decoding, cloze_pb2.MaskDecoding, "MASK_DECODING_")


def fill_mask_request(
    *,
    model: str | Model | None,
    top_k: SupportsIndex | None,
    candidates: str | Iterable[str] | None,
    interventions: Interventions,
    reference_texts: str | Iterable[str],
    truncate: bool,
    decoding: Decoding | None = None,
    beam_width: SupportsIndex | None = None,
    max_pieces: SupportsIndex | None = None,
    piece_ids: Numbers | None = None,
    logits: bool = False,
    next_sentence: bool = False,
) -> cloze_pb2.FillMaskRequest:
    """Returns the request of FillMask, without its texts."""
    words = None if candidates is None else validation.not_empty("candidates", validation.texts("candidates", candidates))
    return cloze_pb2.FillMaskRequest(
        model=model_name("model", model),
        top_k=None if top_k is None else validation.uint32("top_k", top_k),
        candidates=words,
        interventions=head_interventions(interventions),
        reference_texts=validation.texts("reference_texts", reference_texts),
        truncate=validation.flag("truncate", truncate),
        decoding=cloze_pb2.MASK_DECODING_UNSPECIFIED
        if decoding is None
        else validation.choice("decoding", decoding, DECODINGS),
        beam_width=None if beam_width is None else validation.uint32("beam_width", beam_width),
        max_pieces=None if max_pieces is None else validation.uint32("max_pieces", max_pieces),
        piece_ids=validation.uint32s("piece_ids", piece_ids),
        logits=validation.flag("logits", logits),
        next_sentence=validation.flag("next_sentence", next_sentence),
    )
