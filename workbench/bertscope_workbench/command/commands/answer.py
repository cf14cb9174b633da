"""Find the spans of a passage that answer questions best, and say how well no answer fits.

A passage that is longer than the model reads is read in windows that overlap. With --output, a row for each question of a
file is written as it comes, and --resume goes on with a file that was cut short.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, Numbered
from bertscope_workbench.command.options.groups import Offered, grouped
from bertscope_workbench.command.views.answers import fields, print_answer
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.readers import files


@dataclass(frozen=True)
class QuestionArguments:
    """Questions on one passage."""

    questions: Annotated[list[str] | None, typer.Argument(metavar="[QUESTION]...", help="Questions on one passage.")] = None
    passage: Annotated[str | None, typer.Option("--passage", metavar="TEXT", help="The passage.")] = None
    passage_file: Annotated[
        Path | None, typer.Option("--passage-file", metavar="FILE", help='A file with the passage; "-" is stdin.')
    ] = None

    def __bool__(self) -> bool:
        return bool(self.questions) or self.passage is not None or self.passage_file is not None

    def items(self) -> Numbered:
        """Returns the questions, each with the passage."""
        if not self.questions:
            raise UsageError("no question: give a QUESTION and its --passage, or --questions FILE")
        if (self.passage is None) == (self.passage_file is None):
            raise UsageError("give one passage: --passage TEXT or --passage-file FILE")
        text = self.passage if self.passage_file is None else _read_passage(self.passage_file)
        return [(None, (question, text)) for question in self.questions]


@dataclass(frozen=True)
class QuestionFileOptions(ItemFileOptions):
    """A file of questions and passages."""

    option: ClassVar[str] = "--questions"
    conflict: ClassVar[str] = "--questions FILE has the questions and the passages; give no QUESTION and no passage beside it"

    file: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help='Answer a file: columns "question", "passage".')
    ] = None


@grouped
def answer(
    *,
    to: AskingOptions,
    given: QuestionArguments,
    file: Annotated[QuestionFileOptions, Offered(columns="What the file calls them: passage=context.")],
    best: Annotated[
        int | None, typer.Option("--best", min=1, metavar="N", help="Spans for each question; 3 unless set.")
    ] = None,
    max_answer_tokens: Annotated[
        int | None, typer.Option("--max-answer-tokens", min=1, metavar="N", help="Most tokens of a span; 30 unless set.")
    ] = None,
    stride: Annotated[
        int | None,
        typer.Option("--stride", min=1, metavar="N", help="Tokens between the windows of a long passage; 128 unless set."),
    ] = None,
    call: Annotated[CallOptions, Offered("model", "timeout", "json")],
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
