"""`bertscope answer`: answers to questions, found in passages by a fine-tuned model."""

import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from bertscope import files
from bertscope.answers import AnsweredQuestion
from bertscope.cli import options
from bertscope.cli.options.groups import grouped
from bertscope.cli.options.interventions import InterventionOptions
from bertscope.cli.options.items import ItemOptions, ItemSource, write_rows
from bertscope.cli.options.server import ServerOptions
from bertscope.cli.options.texts import answer_texts
from bertscope.cli.views.answers import document, print_answer
from bertscope.cli.views.output import Failure, UsageError, console


@grouped
def answer(
    server: ServerOptions,
    base: InterventionOptions,
    out: ItemOptions,
    questions: Annotated[list[str] | None, typer.Argument(metavar="[QUESTION]...", help="Questions on one passage.")] = None,
    passage: Annotated[str | None, typer.Option("--passage", metavar="TEXT", help="The passage.")] = None,
    passage_file: Annotated[
        Path | None, typer.Option("--passage-file", metavar="FILE", help='A file with the passage; "-" is stdin.')
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--questions", metavar="FILE", help='Answer a file: columns "question", "passage".')
    ] = None,
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="NAME=COLUMN,...", help="What the file calls them: passage=context.")
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Take the first N of the file.")] = None,
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
    model: options.ModelName = None,
    timeout: options.Timeout = options.TIMEOUT,
    json: options.Json = False,
) -> None:
    """Find the spans of a passage that answer questions best, and say how well no answer fits.

    A passage that is longer than the model reads is read in windows that overlap. With --output, a row for each question of a
    file is written as it comes, and --resume goes on with a file that was cut short.
    """
    out.require()
    given = {"--columns": columns, "--limit": limit}
    _check(file, out, given, questions, passage, passage_file, json=json)
    asked: dict[str, Any] = {
        "interventions": base.interventions(),
        "reference_texts": base.reference_texts(),
        "best": best,
        "max_answer_tokens": max_answer_tokens,
        "stride": stride,
    }
    source = None if file is None else ItemSource(file, files.QUESTIONS, columns, limit)
    text = passage if passage_file is None else _read_passage(passage_file)
    with server.connect(timeout) as client:
        if source is not None and out.output is not None:
            write_rows(source, out, partial(client.answer_questions_stream, model=model), asked, "answering")
            return

        def ask(lines: Iterator[Any]) -> Generator[AnsweredQuestion, None, None]:
            return client.answer_questions_stream(lines, model=model, **asked)

        given_here = ((None, (question, text)) for question in questions or [])
        read: Iterable[tuple[int | None, Any]] = given_here if source is None else source.texts()
        answer_texts(read, ask, show=partial(print_answer, console()), document=document if json else None)


def _check(
    file: Path | None,
    out: ItemOptions,
    given: Mapping[str, object],
    questions: list[str] | None,
    passage: str | None,
    passage_file: Path | None,
    *,
    json: bool,
) -> None:
    """Rejects options that don't go together."""
    if file is not None and (questions or passage is not None or passage_file is not None):
        raise UsageError("--questions FILE has the questions and the passages; give no QUESTION and no passage beside it")
    if file is None:
        for option, value in {**given, "--output": out.output}.items():
            if value is not None:
                raise UsageError(f"{option} goes with --questions FILE")
        if not questions:
            raise UsageError("no question: give a QUESTION and its --passage, or --questions FILE")
        if (passage is None) == (passage_file is None):
            raise UsageError("give one passage: --passage TEXT or --passage-file FILE")
    if json and out.output is not None:
        raise UsageError("--json prints the answers, and --output writes them; leave one of them out")


def _read_passage(path: Path) -> str:
    """Returns the text of a file, or of stdin. Raises Failure if it can't be read."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode("utf-8-sig")
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Failure(f"{path} is not UTF-8: {error.reason}") from None
