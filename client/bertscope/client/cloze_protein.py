# Generated from bertscope/questions/cloze/protein_calls.py. Do not edit: change that file, and run `make client`.
"""Calls about proteins: `score_substitutions`, `score_contacts`."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bertscope.client.attention import AttentionCalls
from bertscope.client.cloze import ClozeCalls
from bertscope.client.models import ModelCalls
from bertscope.errors import InvalidArgument, InvalidReply, invalid_argument
from bertscope.questions.attention.contacts import (
    MIN_SEPARATION,
    THRESHOLD,
    ContactScores,
    far_contacts,
    layer_parts,
    scored_layers,
    separated,
)
from bertscope.questions.cloze.substitutions import (
    AMINO_ACIDS,
    Substitutions,
    candidates_at_each,
    checked_letters,
    masked_at_each,
    read_substitutions,
    residues_of,
)
from bertscope.questions.models.models import Model
from bertscope.values import validation
from bertscope.values.messages import Interventions


class ProteinCalls(ClozeCalls, ModelCalls, AttentionCalls):
    """The methods of `Client` for models of proteins."""

    def score_substitutions(
        self,
        sequence: str,
        *,
        letters: str | Iterable[str] = AMINO_ACIDS,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        timeout: float | None = None,
    ) -> Substitutions:
        """Scores every substitution of a residue of a protein by masked marginals (Meier et al. 2021, section 3): ln P(letter)
        - ln P(the residue that is there), with that position masked, for each position and each of `letters`.

        `sequence` is written in one-letter codes, with spaces or none, and the model is one of proteins, such as ESM-2. It is
        run once for each residue. `timeout` holds for each call. Raises InvalidArgument for a sequence that is longer than the
        model reads, or a letter that its vocabulary lacks.
        """
        residues, scored = residues_of(sequence), checked_letters(letters)
        try:
            answers = self.fill_mask(
                masked_at_each(residues),
                model=model,
                candidates_per_text=candidates_at_each(residues, scored),
                interventions=interventions,
                reference_texts=reference_texts,
                timeout=timeout,
            )
        except InvalidArgument as error:
            if error.reason != "TEXT_TOO_LONG":
                raise
            message = f"has {len(residues)} residues, more than the model reads; score a part of it"
            raise invalid_argument("sequence", message) from error
        return read_substitutions(residues, scored, answers)

    def score_contacts(
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
        asked = self.get_model(model, timeout=timeout)
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
            with closing(stream) as answers:
                for maps in answers:
                    if source is not None and maps.provenance.weights_digest != source.weights_digest:
                        raise InvalidReply("the model was replaced between two layers; ask again")
                    found += scored_layers(maps, far, apart, limit)
                    source = maps.provenance
        if source is None:
            raise InvalidReply("the server sent no attention maps")
        share, attended, weights = (np.array(values) for values in zip(*found, strict=True))
        rate = float(far.sum() / apart.sum())
        return ContactScores(residues, share, attended, weights, rate, limit, min_separation, source)
