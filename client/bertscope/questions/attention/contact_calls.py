"""Calls about proteins: `score_contacts`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import aclosing
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertscope.errors import InvalidReply
from bertscope.questions.attention.calls import AsyncAttentionCalls
from bertscope.questions.attention.contacts import (
    MIN_SEPARATION,
    THRESHOLD,
    ContactScores,
    far_contacts,
    layer_parts,
    scored_layers,
    separated,
)
from bertscope.questions.models.calls import AsyncModelCalls
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.validation import residues_of


class AsyncContactCalls(AsyncAttentionCalls, AsyncModelCalls):
    """The methods of `AsyncClient` that compare attention with contacts of residues."""

    async def score_contacts(
        self,
        sequence: str,
        contacts: ArrayLike,
        *,
        threshold: float = THRESHOLD,
        min_separation: int = MIN_SEPARATION,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> ContactScores:
        """Scores how much of each head's attention falls on residues in contact (Vig et al. 2021, section 3): the share of the
        pairs with attention over `threshold` that touch, and the share of all the weight.

        `contacts` is 0 or 1 for each pair of residues, [L, L], as `read_contacts` gives it; pairs less than `min_separation`
        apart in the sequence are left out. The maps are read some layers at a time, each time running the model once;
        `timeout` holds for each. Raises InvalidArgument for contacts of another size than the sequence, or none so far apart.
        """
        residues, limit = residues_of(sequence), validation.finite_number("threshold", threshold)
        far, apart = far_contacts(residues, contacts, min_separation), separated(len(residues), min_separation)
        asked = await self.get_model(model, timeout=timeout)
        found, source = list[tuple[NDArray[Any], ...]](), None
        for layers in layer_parts(asked.layers, asked.heads, len(residues)):
            stream = self.extract_attention(
                [residues],
                model=asked.name,
                layers=layers,
                interventions=interventions,
                reference_texts=reference_texts,
                timeout=timeout,
            )
            async with aclosing(stream) as answers:
                async for maps in answers:
                    if source is not None and maps.provenance.weights_digest != source.weights_digest:
                        raise InvalidReply("the model was replaced between two layers; ask again")
                    found += scored_layers(maps, far, apart, limit)
                    source = maps.provenance
        if source is None:
            raise InvalidReply("the server sent no attention maps")
        share, attended, weights = (np.array(values) for values in zip(*found, strict=True))
        rate = float(far.sum() / apart.sum())
        return ContactScores(residues, share, attended, weights, rate, limit, min_separation, source)
