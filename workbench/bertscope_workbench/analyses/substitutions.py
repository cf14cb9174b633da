"""Scores of every substitution of a protein: what a mutation does, by a masked language model of proteins."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from bertscope import Client, InvalidArgument, Model
from bertscope.errors import invalid_argument
from bertscope.questions.cloze.answers import FilledTexts
from bertscope.values.display import ShownAsTable, record
from bertscope.values.interventions import Interventions
from bertscope.values.results import Provenance
from bertscope.values.validation import residues_of
from numpy.typing import NDArray

__all__ = ["AMINO_ACIDS", "Substitutions", "score_substitutions"]

AMINO_ACIDS = "ACDEFGHIKLMNPQRSTVWY"
"""One-letter codes of the twenty standard amino acids, in alphabetical order."""

MASK = "[MASK]"
MUTATION = re.compile(r"([A-Z])([1-9]\d*)([A-Z])")


@record(eq=False)
class Substitutions(ShownAsTable):
    """The scores of every substitution of one sequence."""

    sequence: str
    """One-letter codes, without spaces; its length is L."""
    letters: str
    """The residues that are put in, one a row."""
    log_probabilities: NDArray[np.float64]
    """ln P(letter | the rest of the sequence, its position masked), [letters, L]."""
    wild_type: NDArray[np.float64]
    """ln P(the residue that is there | likewise), [L]."""
    provenance: Provenance
    """Where the scores come from."""

    @cached_property
    def log_odds(self) -> NDArray[np.float64]:
        """ln P(letter) - ln P(wild type), [letters, L]: the masked marginal score of Meier et al. 2021, section 3; 0 for the
        residue that is there, below 0 where the model finds the letter less likely."""
        return self.log_probabilities - self.wild_type

    def score(self, mutation: str) -> float:
        """Returns the score of a mutation, such as "A24V": residue 24, counted from 1, an A, becomes a V. That of several,
        "A24V:G30S", is the sum of theirs. Raises InvalidArgument for one that does not fit the sequence."""
        return float(sum(self.log_odds[self._place(part)] for part in mutation.split(":")))

    def _place(self, mutation: str) -> tuple[int, int]:
        found = MUTATION.fullmatch(mutation.strip())
        if found is None:
            raise invalid_argument("mutation", 'is not of the form "A24V": the residue, its number from 1, the new residue')
        before, place, after = found[1], int(found[2]), found[3]
        if place > len(self.sequence) or self.sequence[place - 1] != before:
            there = (
                f"residue {place} is {self.sequence[place - 1]}" if place <= len(self.sequence) else "the sequence is shorter"
            )
            raise invalid_argument("mutation", f"does not fit the sequence: {there}")
        if after not in self.letters:
            raise invalid_argument("mutation", f"puts in a residue that was not scored; scored are {self.letters}")
        return self.letters.index(after), place - 1

    def columns(self) -> dict[str, list[Any]]:
        """Returns a table of all substitutions, without those of a residue by itself: mutation, position from 1, wild type,
        residue, log-odds, log-probability."""
        places = [
            (row, place)
            for place, there in enumerate(self.sequence)
            for row, letter in enumerate(self.letters)
            if letter != there
        ]
        return {
            "mutation": [f"{self.sequence[place]}{place + 1}{self.letters[row]}" for row, place in places],
            "position": [place + 1 for _, place in places],
            "wild_type": [self.sequence[place] for _, place in places],
            "residue": [self.letters[row] for row, _ in places],
            "log_odds": [float(self.log_odds[at]) for at in places],
            "log_probability": [float(self.log_probabilities[at]) for at in places],
        }


def checked_letters(letters: str | Iterable[str]) -> str:
    """Returns the letters to put in, each once. Raises InvalidArgument for none, or anything but capital letters."""
    found = "".join(dict.fromkeys("".join(letters)))
    if not found or not (found.isascii() and found.isalpha() and found.isupper()):
        raise invalid_argument("letters", f'must be capital letters, such as "{AMINO_ACIDS}"')
    return found


def masked_at_each(residues: str) -> list[str]:
    """Returns the sequence as often as it is long, each time with the next residue masked."""
    return [f"{residues[:place]}{MASK}{residues[place + 1 :]}" for place in range(len(residues))]


def candidates_at_each(residues: str, letters: str) -> list[list[str]]:
    """Returns the letters to ask for at each position: those to put in, and the one that is there."""
    return [list(dict.fromkeys((*letters, there))) for there in residues]


def read_substitutions(residues: str, letters: str, answers: FilledTexts) -> Substitutions:
    """Converts the answers for the masked sequences."""
    found = np.empty((len(letters), len(residues)), dtype=np.float64)
    wild_type = np.empty(len(residues), dtype=np.float64)
    for place, answer in enumerate(answers):
        by_letter = {prediction.token: prediction.log_probability for prediction in answer.masks[0].predictions}
        found[:, place] = [by_letter[letter] for letter in letters]
        wild_type[place] = by_letter[residues[place]]
    return Substitutions(residues, letters, found, wild_type, answers[0].provenance)


def score_substitutions(
    client: Client,
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
        answers = client.fill_mask(
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
