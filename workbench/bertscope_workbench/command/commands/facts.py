"""Show what a model knows: how often it gives the right object of a fact ("The capital of [X] is [Y].").

A table by relation has P@1 and P@10 with intervals, and how many facts were skipped and why. --negated adds negated probes,
--prior what is likely without the subject, and several templates the consistency over paraphrases. With --rows, a row for
each fact is written as its answers come, and --resume goes on with a file that was cut short.

Example:

  bertscope facts examples/countries.tsv --columns subject=country,object=capital --template "The capital of [X] is [Y]."
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import Fact, FactAnswers, FactRelation, FactTemplate, ObjectScoring, TemplateChoice
from bertscope.questions.facts.answers import templates_of
from rich.console import Console

from bertscope_workbench.analyses.names import guess_by_name
from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, flag, offered, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import RowOptions
from bertscope_workbench.command.options.results import OutputOptions, SummaryOptions, print_result
from bertscope_workbench.command.parts.fact_rows import FactSource, answered_in_rows
from bertscope_workbench.command.views import facts as view
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.facts import save_facts
from bertscope_workbench.readers.fact_files import read_templates, read_words
from bertscope_workbench.readers.items.run import WrittenItems

GOLDS = "golds"


@dataclass(frozen=True)
class QuestionOptions:
    """The templates, and the objects to rank among."""

    templates: Path | None = option("--templates FILE", "Templates by relation, as LAMA's or ParaRel's (.jsonl).")
    template: list[str] | None = option(
        "--template TEXT", 'A template: "The capital of [X] is [Y]." Repeatable.', field="templates relations.templates.text"
    )
    negated: list[str] | None = option("--negated TEXT", 'A negated one: "The capital of [X] is not [Y]." Repeatable.')
    candidates: str | None = option("--candidates FILE|golds", "Rank among these words, or all right objects of a relation.")
    vocabulary: Path | None = option("--vocabulary FILE", "Rank among these words: one a line, as LAMA's.")

    def relations(self, facts: Sequence[Fact]) -> dict[str, FactRelation]:
        """Returns the relations of the facts, by name."""
        own = [*map(FactTemplate, self.template or []), *(FactTemplate(text, negated=True) for text in self.negated or [])]
        names = list(dict.fromkeys(fact.relation for fact in facts))
        known = {} if self.templates is None else read_file(self.templates, read_templates)
        if not own and not known:
            raise UsageError('give --templates FILE, or --template "The capital of [X] is [Y]."')
        missing = [name for name in names if name not in known]
        if missing and not self.template:
            raise Failure(f"{self.templates} has no template of the relation {missing[0]}; give one with --template")
        return {name: self._relation(name, known.get(name), own, facts) for name in names}

    def _relation(
        self, name: str, known: FactRelation | None, own: Sequence[FactTemplate], facts: Sequence[Fact]
    ) -> FactRelation:
        templates = [*(() if known is None else templates_of(known)), *own]
        candidates: Sequence[str] = ()
        if self.candidates == GOLDS:
            candidates = list(dict.fromkeys(word for fact in facts if fact.relation == name for word in fact.objects))
        elif self.candidates is not None:
            candidates = read_file(Path(self.candidates), read_words)
        return FactRelation(name, templates, candidates)


def facts(
    *,
    to: ModelOptions,
    questions: QuestionOptions,
    rows: RowOptions,
    files: list[Path] = argument(
        "FILE...", "Facts: LAMA's or ParaRel's (.jsonl), or tables of subject and object (.tsv, .csv)."
    ),
    relation: str | None = option("--relation NAME", "The relation of all facts; the file's unless set."),
    columns: Mapping[str, str] | None = option(
        "--columns NAME=COLUMN,...", "What a table calls them: subject=country,object=capital.", reads=specifications.columns
    ),
    limit: int | None = option("--limit N", "Take each file's first N facts.", min=1),
    scoring: ObjectScoring | None = option(
        "--scoring", "How objects of several pieces are scored; single_entry, the default, skips them."
    ),
    max_pieces: int | None = option(
        "--max-pieces", "With --scoring left_to_right or confidence_first; 5 unless set.", min=1, max=10
    ),
    by: TemplateChoice = option("--by", "P@k by the first template, the best, or the mean.", default="first"),
    prior: bool = flag("--prior", "Also ask with a mask in place of the subject."),
    uhn: bool = flag("--uhn", "Leave out what the subject's name gives away (LAMA-UHN)."),
    top_k: int = option("--top-k, -k", "Predictions kept of each answer.", default=1, min=0, max=100),
    out: OutputOptions = offered(dark="Draw on a dark page.", output="Write every answer: .csv, .tsv, .jsonl, .parquet, .tex."),
    summary: SummaryOptions,
    call: options.CallOptions = offered("model", "timeout", "json"),
) -> None:
    source = FactSource()
    for path in files:
        read_file(path, lambda path: source.add(path, relation, columns, limit, skip_broken=rows.skip_broken))
    relations = questions.relations(source.facts)
    vocabulary = [] if questions.vocabulary is None else read_file(questions.vocabulary, read_words)
    changes = to.arguments()
    asked: dict[str, Any] = {
        "vocabulary": vocabulary,
        "scoring": scoring or "single_entry",
        "max_pieces": max_pieces,
        "top_k": top_k,
        "prior": prior,
        **changes,
    }
    written: WrittenItems | None = None
    with to.connect(call.timeout) as client:
        if rows.rows is not None:
            found, written = answered_in_rows(client, source, [*relations.values()], rows, call.model, asked)
        else:
            with answering("asking") as show:
                found = client.query_facts(source.facts, relations.values(), model=call.model, on_progress=show, **asked)
        easy = None
        if uhn:
            with answering("asking about names") as show:
                facts = [result.fact for result in found]
                by_name = guess_by_name(client, facts, model=call.model, on_progress=show, **changes)
            easy = view.LeftOut(len(found.objects_in_subjects), len(by_name - found.objects_in_subjects))
            found = found.without(found.objects_in_subjects | by_name)
    scores = found.scores(by)
    files_written = out.write(found, partial(save_facts, scores))
    files_written += summary.write(scores)

    def show_scores(screen: Console, found: FactAnswers) -> None:
        view.print_scores(screen, found, scores, easy)
        if written is not None:
            source.report(written)

    print_result(found, lambda found: view.document(found, scores, easy), show_scores, json=call.json, written=files_written)
