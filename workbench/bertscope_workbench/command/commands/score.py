"""Score texts: how likely a masked language model finds them.

A score is a pseudo-log-likelihood: the sum of the logarithms of the probabilities of a text's pieces, each masked in turn.
Texts of a file that the model can't read are named and left out. With --rows, a row for each is written as it comes, and
--resume goes on with a file that was cut short.

Examples:

  bertscope score "The keys are old." "The keys is old."
  bertscope score --texts examples/sentences.txt --words --output words.csv
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from bertscope import InvalidArgument, ScoredInput, ScoredText, ScoredTexts, TextsProgress
from bertscope.questions.scores.inputs import ToScore
from bertscope.questions.scores.texts import Level, score_columns
from bertscope.values.validation import TextOrPair
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import flag, offered
from bertscope_workbench.command.options.answering import ItemFileOptions, TextArguments
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import ItemSource, write_rows
from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.parts.score_models import compare_models
from bertscope_workbench.command.parts.score_pairs import compare_pairs
from bertscope_workbench.command.parts.scoring import ScoredRowOptions, ScoringOption
from bertscope_workbench.command.parts.substitutions import show_substitutions
from bertscope_workbench.command.views import scores as view
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.scores import save_surprisal
from bertscope_workbench.readers import files
from bertscope_workbench.readers.files import ItemKind
from bertscope_workbench.readers.table_rows import Row

app = modes("score", __doc__, pairs="pairs FILE", substitutions="substitutions SEQUENCE")


@dataclass(frozen=True)
class TextOptions(ItemFileOptions, TextArguments):
    """The texts to score, and how."""

    conditional: bool = flag("--conditional", 'Score what is after a bar, given the rest: "The keys | are | old."')
    words: bool = flag("--words", "Show, or write, the surprisal of each word.", without="pieces")
    pieces: bool = flag("--pieces", "Show, or write, the score of each piece.")

    @property
    def level(self) -> Level:
        """The rows of tables."""
        return "word" if self.words else "piece" if self.pieces else "text"

    def to_score(self) -> Source[ToScore]:
        """Returns the texts, with their places."""
        if self.file is None:
            read = list(self.items())
            places = [f"text {index}" if line is None else f"line {line}" for index, (line, _) in enumerate(read, start=1)]
            found: Source[TextOrPair] = Source([text for _, text in read], places)
        else:
            path = self.file
            found = source_of(path, lambda: files.read_inputs(path, columns=self.columns, limit=self.limit))
        if not self.conditional:
            return Source(list(found.items), found.places, found.left_out)
        return Source([_from_bars(text, place) for text, place in zip(found.items, found.places, strict=True)], found.places)


@app.command("texts", help=__doc__)
def texts(
    *,
    given: TextOptions,
    scoring: ScoringOption = "within_word",
    out: PrintedOutputOptions,
    rows: ScoredRowOptions,
    call: options.CallOptions = offered("truncate", "model", "timeout"),
    to: ModelOptions,
) -> None:
    arguments = {"scoring": scoring, **to.arguments(), "truncate": call.truncate}
    if rows.rows is not None and given.file is not None:
        kind: ItemKind[Any] = CONDITIONAL if given.conditional else files.INPUTS
        asked = {"conditional": given.conditional, "pieces": given.level != "text", **arguments}
        with to.connect(call.timeout) as client:

            def score(texts: Iterator[Any], *, conditional: bool, **more: Any) -> Generator[ScoredText, None, None]:
                return client.score_texts_stream(texts, model=call.model, **more)

            write_rows(ItemSource(given.file, kind, given.columns, given.limit), rows, score, asked, "scoring")
        return
    level, source = given.level, given.to_score()
    arguments["pieces"] = bool(level != "text" or out.plot or out.json)
    arguments["on_rejected"] = source.reject if given.file is not None else None
    with to.connect(call.timeout) as client, source.named(), answering("scoring") as show:
        found = []
        for scored in client.score_texts_stream(source.items, model=call.model, **arguments):
            found.append(scored)
            show(TextsProgress(len(found), len(source.items)))
    if not found:
        raise Failure(f"every text was left out; {source.left_out[0]}")
    scores = ScoredTexts(found)
    written = out.write(score_columns(scores, level), partial(save_surprisal, scores))

    def show_scores(screen: Console, scores: ScoredTexts) -> None:
        if out.output is None:
            view.print_scores(screen, scores, level)

    print_result(scores, view.document, show_scores, json=out.json, written=written, source=source)


def _from_bars(text: ToScore, place: str) -> ScoredInput:
    if not isinstance(text, str):
        raise UsageError("--conditional takes single texts, not pairs")
    try:
        return ScoredInput.from_bars(text)
    except InvalidArgument as error:
        raise Failure(f"{place}: {error.message}") from error


def _row_from_bars(row: Row) -> ScoredInput:
    return ScoredInput.from_bars(files.TEXTS.item(row))


CONDITIONAL = ItemKind(("text",), (), _row_from_bars)
"""A text with bars around what is scored."""

app.command("pairs")(compare_pairs)
app.command("models")(compare_models)
app.command("substitutions")(show_substitutions)
