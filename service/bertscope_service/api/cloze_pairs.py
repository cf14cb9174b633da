"""Pairs of texts in FillMask, and whether the second one follows."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import cloze_pb2

from bertscope_service.api.requirements import require_cloze, require_next_sentence
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel


def require_heads(request: cloze_pb2.FillMaskRequest, model: LoadedModel) -> None:
    """Checks that a model has the head that each request of this kind needs. Raises Unsupported."""
    if request.next_sentence:
        require_next_sentence(model)
    else:
        require_cloze(model)


def require_for_masks(masks: Sequence[Sequence[int]], model: LoadedModel) -> None:
    """Checks that a model can fill the masks of texts, if there are any. Raises Unsupported."""
    if any(masks):
        require_cloze(model)


def read_text_pairs(request: cloze_pb2.FillMaskRequest) -> tuple[str, ...]:
    """Returns the second texts of a request; none if it has texts alone. Raises InvalidArgument."""
    pairs = request.text_pairs
    if pairs and len(pairs) != len(request.texts):
        message = f"text_pairs has {len(pairs)} entries for {len(request.texts)} texts; give one for each text, or none"
        raise InvalidArgument("text_pairs", message, "TEXT_PAIRS_MISCOUNTED")
    if request.next_sentence and not pairs:
        message = "next_sentence asks whether a second text follows, and there is none; set text_pairs, or leave it out"
        raise InvalidArgument("next_sentence", message, "NO_TEXT_PAIR")
    return tuple(pairs)
