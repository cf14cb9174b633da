"""Rendering of masks and their predictions: bertscope.v1.FilledMask."""

from __future__ import annotations

from itertools import repeat
from typing import Any

from bertscope.v1 import cloze_pb2

from bertscope_service.analyses.candidates import Word
from bertscope_service.analyses.cloze import FilledMask
from bertscope_service.checkpoints.tokenized_text import TokenizedText
from bertscope_service.checkpoints.tokenizer import TextTokenizer


class MaskRenderer:
    """Renders the masks of one answer. Words that are predicted several times are spelled out once."""

    def __init__(self, tokenizer: TextTokenizer) -> None:
        self._tokenizer = tokenizer
        self._named: dict[Word, cloze_pb2.Prediction] = {}

    def render(self, mask: FilledMask, text: TokenizedText, masks: Any) -> None:
        """Adds a mask of a text to a repeated field of FilledMask."""
        start, end = mask.span
        rendered = masks.add(token_index=mask.position, start=start, end=end, segment=text.segment(mask.position))
        add, named = rendered.predictions.add, self._named
        columns = zip(mask.words, mask.logs, mask.probabilities, mask.ranks, mask.shares or repeat(None), strict=False)
        for word, log, probability, rank, share in columns:
            known = named.get(word)
            if known is None:
                known = named[word] = self._name(word)
            prediction = add()
            # Copying what predictions of a word have in common takes less than half the time of writing it again.
            prediction.CopyFrom(known)
            prediction.log_probability = log
            prediction.probability = probability
            if share is not None:
                prediction.candidate_probability = share
            if rank:
                prediction.rank = rank
        if mask.logits is not None:
            for prediction, logit in zip(rendered.predictions, mask.logits, strict=True):
                if logit is not None:
                    prediction.logit = logit

    def _name(self, word: Word) -> cloze_pb2.Prediction:
        """Returns a prediction of a word, without its scores."""
        return cloze_pb2.Prediction(token=word.text, pieces=map(self._tokenizer.piece, word.pieces), piece_ids=word.pieces)
