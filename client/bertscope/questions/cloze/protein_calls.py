"""Calls about proteins: `score_substitutions`."""

from __future__ import annotations

from collections.abc import Iterable

from bertscope.errors import InvalidArgument, invalid_argument
from bertscope.questions.cloze.calls import AsyncClozeCalls
from bertscope.questions.cloze.substitutions import (
    AMINO_ACIDS,
    Substitutions,
    candidates_at_each,
    checked_letters,
    masked_at_each,
    read_substitutions,
)
from bertscope.values.all_interventions import Interventions
from bertscope.values.models import Model
from bertscope.values.validation import residues_of


class AsyncProteinCalls(AsyncClozeCalls):
    """The methods of `AsyncClient` that score substitutions of residues."""

    async def score_substitutions(
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
            answers = await self.fill_mask(
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
