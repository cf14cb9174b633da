"""Defines the options of sweep, rank, prune and benchmark that name a file of items, and converts them to an objective."""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from bertscope import (
    ClozePrompts,
    Divergence,
    InvalidArgument,
    LabelledQuestions,
    LabelledTexts,
    LabelledWords,
    LabelSets,
    MaskedLmLoss,
    MinimalPairs,
    RatedTexts,
    Scoring,
    SimilarTexts,
)
from bertscope.questions.ablation.objectives import Objective

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.readers import files
from bertscope_workbench.readers.item_lists import Items
from bertscope_workbench.readers.span_files import read_probe_texts


def _read_words(path: Path, *, columns: files.Columns, limit: int | None) -> Items[Any]:
    """Reads labelled words. Raises InvalidArgument for a sentence that can't be read."""
    found = read_probe_texts(path, limit=limit)
    if found.problems:
        raise found.problems[0]
    return found


READERS: dict[str, Callable[..., Items[Any]]] = {
    "prompts": files.read_prompts,
    "texts": files.read_texts,
    "pairs": files.read_pairs,
    "labelled": files.read_labelled,
    "words": _read_words,
    "rated": files.read_rated,
    "similar": files.read_similar,
    "label_sets": files.read_label_sets,
    "divergence": files.read_inputs,
    "answered": files.read_answered,
}
ITEM = re.compile(r"\bobjective\.\w+\.\w+\[(\d+)\](?:\.input\b)?(?:\.text(?:_pair)?\b|\.\w+(?=:)|\.(\w+))?")
"""The server's name of an item; a part is kept if the error is about it and not about the text itself."""


@dataclass(frozen=True)
class ObjectiveOptions:
    """The file to measure on, and how. Files are .tsv, .csv or .jsonl; texts may be .txt."""

    flags: ClassVar[Mapping[str, str]] = {source: f"--{source.replace('_', '-')}" for source in READERS}
    """The option that names a file, for each kind of items."""

    prompts: Path | None = option("--prompts FILE", 'Measure filled prompts: columns "text" with [MASK], "answer" (a|b).')
    texts: Path | None = option("--texts FILE", 'Measure the masked-LM loss of texts: column "text", or .txt.')
    pairs: Path | None = option("--pairs FILE", 'Measure minimal pairs: columns "good" and "bad".')
    labelled: Path | None = option("--labelled FILE", 'Measure labels: columns "text", "label" and maybe "text_pair".')
    words: Path | None = option(
        "--words FILE", "Measure labels of words: .tsv of words and labels, .conllu (upos) or .jsonl of spans."
    )
    label_sets: Path | None = option("--label-sets FILE", 'Measure sets of labels: columns "text", "labels" (a|b, | is none).')
    rated: Path | None = option("--rated FILE", 'Measure values: columns "text", "value" and maybe "text_pair".')
    similar: Path | None = option(
        "--similar FILE", 'Measure how alike vectors of texts are (STS): columns "text", "text_pair", "value".'
    )
    answered: Path | None = option("--answered FILE", 'Measure answers: columns "question", "passage", "answer" (a|b).')
    divergence: Path | None = option("--divergence FILE", 'Measure how far predictions move: column "text", no answers needed.')
    columns: Mapping[str, str] | None = option(
        "--columns NAME=COLUMN,...",
        "What the file calls them: text=sentence1.",
        reads=specifications.columns,
        needs=" ".join(READERS),
        without="words",
    )
    limit: int | None = option("--limit N", "Take the first N items of the file.", min=1, needs=" ".join(READERS))
    seed: int = option("--seed", "Of what is random: masked words, intervals.", default=0, min=0)
    mask_share: float | None = option(
        "--mask-share SHARE", "With --texts: share of words to mask; 0.15 unless set.", needs="texts"
    )
    skip_multi_piece: bool = flag(
        "--skip-multi-piece", "With --prompts: leave out those without an answer of a single piece.", needs="prompts"
    )
    scoring: Scoring | None = option(
        "--scoring", "With --pairs: what is masked with each piece; within-word unless set.", dashed=True, needs="pairs"
    )
    truncate: options.Truncate = False

    @property
    def given(self) -> list[str]:
        """The options that name a file."""
        return [flag for source, flag in self.flags.items() if getattr(self, source) is not None]

    @property
    def file(self) -> Path:
        """The file that is named."""
        found: Path = next(path for source in self.flags if (path := getattr(self, source)) is not None)
        return found

    def objective(self) -> Objective:
        """Returns the objective. Raises UsageError unless exactly one file is named, and Failure if it can't be read."""
        named = [source for source in self.flags if getattr(self, source) is not None]
        if len(named) != 1:
            raise UsageError(f"say what to measure: one of {', '.join(self.flags.values())}, not {len(named)}")
        return BUILDERS[named[0]](self)

    def items(self, source: str, limit: int | None = None) -> Items[Any]:
        """Returns the items of a file, the first `limit` or as many as requested."""
        return read_file(getattr(self, source), partial(READERS[source], columns=self.columns, limit=limit or self.limit))

    @contextmanager
    def lines_named(self) -> Iterator[None]:
        """Replaces the server's name of an item in errors by its line in the file."""
        try:
            yield
        except InvalidArgument as error:
            raise Failure(ITEM.sub(self._line, str(error))) from error

    def _line(self, item: re.Match[str]) -> str:
        (source,) = (source for source in self.flags if getattr(self, source) is not None)
        line = f"{getattr(self, source)}, line {self.items(source, int(item[1]) + 1).lines[-1]}"
        return f"{line}: {item[2]}" if item[2] else line


def items_of(objective: Objective) -> int:
    """Returns the number of items of an objective: prompts, texts, pairs or questions."""
    values = (getattr(objective, field.name) for field in fields(objective))
    return next(len(value) for value in values if isinstance(value, tuple))


def _answered(items: Items[Any]) -> LabelledQuestions:
    """Returns the objective: as SQuAD 2.0 has it where a question has no answer, else as SQuAD 1.1."""
    return LabelledQuestions(items, no_answer_threshold=None if all(answers for *_, answers in items) else 0.0)


BUILDERS: dict[str, Callable[[ObjectiveOptions], Objective]] = {
    "prompts": lambda asked: ClozePrompts(
        asked.items("prompts"), skip_multi_piece=asked.skip_multi_piece, truncate=asked.truncate
    ),
    "texts": lambda asked: MaskedLmLoss(
        asked.items("texts"), seed=asked.seed, mask_share=asked.mask_share, truncate=asked.truncate
    ),
    "pairs": lambda asked: MinimalPairs(asked.items("pairs"), scoring=asked.scoring or "within_word", truncate=asked.truncate),
    "labelled": lambda asked: LabelledTexts(asked.items("labelled"), truncate=asked.truncate),
    "words": lambda asked: LabelledWords(asked.items("words"), truncate=asked.truncate),
    "rated": lambda asked: RatedTexts(asked.items("rated"), truncate=asked.truncate),
    "similar": lambda asked: SimilarTexts(asked.items("similar"), truncate=asked.truncate),
    "label_sets": lambda asked: LabelSets(asked.items("label_sets"), truncate=asked.truncate),
    "answered": lambda asked: _answered(asked.items("answered")),
    "divergence": lambda asked: Divergence(asked.items("divergence"), truncate=asked.truncate),
}


@dataclass(frozen=True)
class ScoreOptions(ObjectiveOptions):
    """The file to score models on, for commands with another --texts and no --divergence."""

    flags: ClassVar[Mapping[str, str]] = {
        source: "--loss" if source == "texts" else flag
        for source, flag in ObjectiveOptions.flags.items()
        if source != "divergence"
    }

    texts: Path | None = option("--loss FILE", 'Measure the masked-LM loss of texts: column "text", or .txt.')
    divergence: ClassVar[None] = None  # type: ignore[misc]  # not an option here
    mask_share: float | None = option(
        "--mask-share SHARE", "With --loss: share of words to mask; 0.15 unless set.", needs="texts"
    )
