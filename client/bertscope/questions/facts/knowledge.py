"""All answers about many facts, with their tables and metrics."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bertscope.questions.facts.answers import FactResult
from bertscope.questions.facts.metrics import CHOICES, FactScores, relation_scores
from bertscope.questions.facts.questions import FactRelation, templates_of
from bertscope.values import validation
from bertscope.values.choices import TemplateChoice
from bertscope.values.display import data_frame, record, table_html
from bertscope.values.results import Provenance

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FactAnswers"]

ANSWER_COLUMNS = [
    "relation", "subject", "objects", "skipped", "object_in_subject", "template", "text", "negated", "prime", "rank", "object",
    "log_probability", "prior_rank", "prior_log_probability", "answer", "answer_log_probability",
    "model", "weights_digest",
]  # fmt: skip


@record
class FactAnswers:
    """The answers about many facts, in order; iterating yields each `FactResult`. `scores` gives their metrics."""

    results: tuple[FactResult, ...]
    """One for each fact, in order."""
    relations: Mapping[str, FactRelation]
    """The relations by name."""
    ranked_among: Mapping[str, int]
    """Number of entries, candidates or fillings that the facts of each relation were ranked among; 0 if none was asked."""
    vocabulary_left_out: int
    """Words of the given vocabulary that are no single entry of the model's."""
    scoring: str
    """The scoring that was used: "single_entry", "candidates", "left_to_right" or "confidence_first"."""
    provenance: Provenance
    """Provenance of the answers."""

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[FactResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> FactResult:
        return self.results[index]

    def of(self, relation: str) -> list[FactResult]:
        """Returns the answers about the facts of one relation."""
        return [result for result in self.results if result.fact.relation == relation]

    @property
    def objects_in_subjects(self) -> frozenset[int]:
        """Indices of the facts whose subject contains a right object, letter case ignored (the string match filter of Poerner
        et al. 2020)."""
        return frozenset(index for index, result in enumerate(self.results) if result.object_in_subject)

    def without(self, indices: Container[int]) -> FactAnswers:
        """Returns the answers without those about some facts, by their indices."""
        return replace(self, results=tuple(result for index, result in enumerate(self.results) if index not in indices))

    def scores(self, template: TemplateChoice = "first") -> FactScores:
        """Returns P@1, P@10 and MRR of each relation, by a template or the mean over all, and what probes tell."""
        chosen = validation.choice("template", template, CHOICES)
        found = [
            relation_scores(relation, self.of(name), chosen, self.ranked_among[name])
            for name, relation in self.relations.items()
        ]
        return FactScores(tuple(found), chosen, self.provenance)

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yields a row of ANSWER_COLUMNS for each answer, and one for each fact that was skipped."""
        source = self.provenance.model, self.provenance.weights_digest
        for result in self.results:
            fact = result.fact
            about = fact.relation, fact.subject, "|".join(fact.objects), result.skipped, result.object_in_subject
            if not result.answers:
                yield (*about, *[None] * (len(ANSWER_COLUMNS) - len(about) - len(source)), *source)
            for answer in result.answers:
                template = templates_of(self.relations[fact.relation])[answer.template]
                first = answer.predictions[0] if answer.predictions else None
                yield (
                    *about,
                    *(answer.template, template.text, template.negated, answer.prime, answer.rank, answer.object),
                    *(answer.log_probability, answer.prior_rank, answer.prior_log_probability),
                    *((None, None) if first is None else (first.object, first.log_probability)),
                    *source,
                )

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each answer, and one for each fact that was skipped. Needs the extra "pandas"."""
        frame = data_frame([*self.rows()], ANSWER_COLUMNS)
        floats = dict.fromkeys(("log_probability", "prior_log_probability", "answer_log_probability"), "float64")
        return frame.astype(floats | dict.fromkeys(("template", "rank", "prior_rank"), "Int64") | {"negated": "boolean"})

    def _repr_html_(self) -> str | None:
        return table_html(self)


def joined(results: Sequence[FactResult], relations: Mapping[str, FactRelation]) -> FactAnswers:
    """Returns the answers about facts, at least one."""
    among = dict.fromkeys(relations, 0)
    for result in results:
        among[result.fact.relation] = max(among[result.fact.relation], result.ranked_among)
    last = results[-1]
    return FactAnswers(tuple(results), relations, among, last.vocabulary_left_out, last.scoring, last.provenance)
