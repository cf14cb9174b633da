"""Score texts: how likely a masked language model finds them, their words and their pieces.

A score is a pseudo-log-likelihood: the sum of the logarithms of the probabilities of a text's pieces, each masked in turn.
With --substitutions, every substitution of a residue of a protein, by a model such as ESM-2.
With --pairs, how often the better sentence of a minimal pair scores higher, by group, and for two models side by side.
Texts of a file that the model can't read are named and left out. With --rows, a row for each is written as it comes, and
--resume goes on with a file that was cut short.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from bertscope import InvalidArgument, ScoredInput, ScoredTexts, Scoring, TextsProgress
from bertscope.questions.scores.inputs import ToScore
from bertscope.questions.scores.texts import Level, score_columns
from bertscope.values.validation import TextOrPair
from rich.console import Console

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import DASHED, Offered, argument, option, refuse, values_of
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.items import RowOptions
from bertscope_workbench.command.options.models import Models, one_model
from bertscope_workbench.command.options.results import PrintedOutputOptions, print_result
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.options.texts import read_texts
from bertscope_workbench.command.parts.score_models import compare_models
from bertscope_workbench.command.parts.score_pairs import PairOptions, compare_pairs
from bertscope_workbench.command.parts.score_rows import score_rows
from bertscope_workbench.command.parts.substitutions import SubstitutionOptions, show_substitutions
from bertscope_workbench.command.views import scores as view
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import answering
from bertscope_workbench.plots.scores import save_surprisal
from bertscope_workbench.readers import files


@dataclass(frozen=True)
class TextOptions:
    """The texts to score, and how."""

    texts: Annotated[list[str] | None, argument("[TEXT]...", 'Texts; "-" or none reads lines from stdin.')] = None
    file: Annotated[Path | None, option("--texts FILE", 'Score a file: column "text", maybe "text_pair", or .txt.')] = None
    columns: Annotated[str | None, option("--columns NAME=COLUMN,...", "What the file calls them: text=sentence1.")] = None
    limit: Annotated[int | None, option("--limit N", "Take the first N of the file.", min=1)] = None
    conditional: Annotated[
        bool, option("--conditional", 'Score what is after a bar, given the rest: "The keys | are | old."')
    ] = False
    words: Annotated[bool, option("--words", "Show, or write, the surprisal of each word.")] = False
    pieces: Annotated[bool, option("--pieces", "Show, or write, the score of each piece.")] = False

    @property
    def level(self) -> Level:
        """The rows of tables."""
        if self.words and self.pieces:
            raise UsageError("--words and --pieces exclude each other; give one of them")
        return "word" if self.words else "piece" if self.pieces else "text"

    def check_unused(self, other: str) -> None:
        """Rejects options that mean nothing with another one."""
        own = values_of(self, "file", "conditional", "words", "pieces")
        refuse({"TEXT": self.texts, **own}, f"does not go with {other}")

    def source(self) -> Source[ToScore]:
        """Returns the texts, with their places."""
        if self.file is None:
            refuse(values_of(self, "columns", "limit"), "goes with --texts or --pairs")
            read = list(read_texts(self.texts or []))
            places = [f"text {index}" if line is None else f"line {line}" for index, (line, _) in enumerate(read, start=1)]
            found: Source[TextOrPair] = Source([text for _, text in read], places)
        else:
            if self.texts:
                raise UsageError("--texts reads the texts from a file, and takes no TEXT")
            path, columns = self.file, specifications.columns("--columns", self.columns)
            found = source_of(path, lambda: files.read_inputs(path, columns=columns, limit=self.limit))
        if not self.conditional:
            return Source(list(found.items), found.places, found.left_out)
        return Source([_from_bars(text, place) for text, place in zip(found.items, found.places, strict=True)], found.places)


def score(
    *,
    to: ModelOptions,
    given: TextOptions,
    pairs: PairOptions,
    protein: SubstitutionOptions,
    out: Annotated[PrintedOutputOptions, Offered(dark="Draw on a dark page.")],
    rows: RowOptions,
    scoring: Annotated[
        Scoring, option("--scoring", "What is masked with each piece: later ones of its word, none, or all."), DASHED
    ] = "within_word",
    call: Annotated[options.CallOptions, Offered("truncate", "timeout")],
    model: Models = None,
) -> None:
    arguments: dict[str, Any] = {
        "model": one_model(
            model,
            substitutions=protein.sequence,
            baseline=pairs.baseline,
            errors=pairs.errors,
            errors_output=pairs.errors_output,
            plot=out.plot,
            rows=rows.rows,
        ),
        "scoring": scoring,
        **to.arguments(),
        "truncate": call.truncate,
    }
    if protein.sequence is not None:
        given.check_unused("--substitutions")
        del arguments["scoring"]
        show_substitutions(to, protein.sequence, out, timeout=call.timeout, **arguments)
        return
    if rows.rows is not None:
        refuse(values_of(out, "plot", "output", "json"), "does not go with --rows")
        more = {"conditional": given.conditional, "pieces": given.level != "text", "timeout": call.timeout, **arguments}
        score_rows(to, given.file, pairs, rows, (given.columns, given.limit), **more)
        return
    if pairs.pairs is not None:
        given.check_unused("--pairs")
        if model is not None and len(model) > 1:
            del arguments["model"]
            compare_models(to, pairs, pairs.source(given.columns, given.limit), out, model, timeout=call.timeout, **arguments)
            return
        compare_pairs(to, pairs, pairs.source(given.columns, given.limit), out, timeout=call.timeout, **arguments)
        return
    if model is not None and len(model) > 1:
        raise UsageError("several --model go with --pairs: the scores of texts by models with other pieces do not compare")
    level, source = given.level, given.source()
    arguments["pieces"] = bool(level != "text" or out.plot or out.json)
    arguments["on_rejected"] = source.reject if given.file is not None else None
    with to.connect(call.timeout) as client, source.named(), answering("scoring") as show:
        found = []
        for scored in client.score_texts_stream(source.items, **arguments):
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
