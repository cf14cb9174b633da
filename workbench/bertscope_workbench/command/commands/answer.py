"""Find the spans of a passage that answer questions best, and say how well no answer fits.

A passage that is longer than the model reads is read in windows that overlap. With --output, a row for each question of a
file is written as it comes, and --resume goes on with a file that was cut short.

Examples:

  bertscope answer "Where did she live?" --passage "Ada Lovelace lived in London." --model qa
  bertscope answer --questions questions.tsv --output answers.csv --model qa
"""

import dataclasses
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertscope import AnsweredQuestion
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.groups import argument, offered, option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, Numbered
from bertscope_workbench.command.views.output import Failure, UsageError, plural, table, text_line
from bertscope_workbench.plots.theme import shortened
from bertscope_workbench.readers import files

SHOWN_PASSAGE = 60
"""Most characters of a passage in a title."""


@dataclass(frozen=True)
class QuestionArguments:
    """Questions on one passage."""

    questions: list[str] | None = argument("[QUESTION]...", "Questions on one passage.", default=None, without="file")
    passage: str | None = option("--passage TEXT", "The passage.", without="file")
    passage_file: Path | None = option("--passage-file FILE", 'A file with the passage; "-" is stdin.', without="file passage")

    def items(self) -> Numbered:
        """Returns the questions, each with the passage."""
        if not self.questions:
            raise UsageError("no question: give a QUESTION and its --passage, or --questions FILE")
        if self.passage is None and self.passage_file is None:
            raise UsageError("give one passage: --passage TEXT or --passage-file FILE")
        text = self.passage if self.passage_file is None else _read_passage(self.passage_file)
        return [(None, (question, text)) for question in self.questions]


@dataclass(frozen=True)
class QuestionFileOptions(ItemFileOptions):
    """A file of questions and passages."""

    file: Path | None = option("--questions FILE", 'Answer a file: columns "question", "passage".')


def answer(
    *,
    given: QuestionArguments,
    file: QuestionFileOptions = offered(columns="What the file calls them: passage=context."),
    best: int | None = option("--best N", "Spans for each question; 3 unless set.", min=1),
    max_answer_tokens: int | None = option("--max-answer-tokens N", "Most tokens of a span; 30 unless set.", min=1),
    stride: int | None = option("--stride N", "Tokens between the windows of a long passage; 128 unless set.", min=1),
    call: CallOptions = offered("model", "timeout", "json"),
    to: AskingOptions,
) -> None:
    AskedItems(to, given, file, call, files.QUESTIONS).answer(
        "answering",
        lambda client: client.answer_questions_stream,
        print_answer,
        fields,
        best=best,
        max_answer_tokens=max_answer_tokens,
        stride=stride,
    )


def _read_passage(path: Path) -> str:
    """Returns the text of a file, or of stdin. Raises Failure if it can't be read."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not UTF-8: {error.reason}") from None


def fields(answer: AnsweredQuestion) -> dict[str, Any]:
    """Returns an answer in JSON types, without the passage, which the caller has."""
    return {name: value for name, value in dataclasses.asdict(answer).items() if name != "passage"}


def print_answer(screen: Console, answer: AnsweredQuestion) -> None:
    """Prints the question, and a row for each span and for no answer."""
    screen.print(text_line(answer.question, shortened(answer.passage, SHOWN_PASSAGE, "...")))
    rows = [[one.text, f"{one.start}-{one.end}", one.probability, one.probability, one.score] for one in answer.spans]
    missing, score = answer.no_answer_probability, answer.spans[0].score + answer.no_answer_score
    rows.append([Text("(no answer)", style="dim"), None, missing, missing, score])
    screen.print(table(["answer", "characters#", "probability#p", "#bar", "score#.3f"], rows))
    if answer.windows > 1:
        screen.print(f"the passage was read in {plural(answer.windows, 'window')}", style="dim")
