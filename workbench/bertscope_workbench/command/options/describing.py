"""Defines the options of texts to describe, in a file or not, and those of `bertscope attention --describe`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from bertscope.values.validation import TextOrPair

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, option, refuse, values_of
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.results import OutputOptions
from bertscope_workbench.command.options.sources import Source, source_of
from bertscope_workbench.command.options.texts import read_texts
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.readers import files
from bertscope_workbench.readers.treebanks import read_conllu

TREEBANK = ".conllu"


@dataclass(frozen=True)
class TextFileOptions:
    """A file of texts or pairs."""

    text: Annotated[list[str] | None, argument("[TEXT]...", "Texts, or lines of stdin.")] = None
    texts: Annotated[
        Path | None,
        option("--texts FILE", '.txt, .conllu, or columns "text", maybe "text_pair" of a table.'),
    ] = None
    columns: options.Columns = None
    limit: Annotated[int | None, option("--limit N", "Take the first N texts of the file.", min=1)] = None

    def source(self, pair: str | None = None) -> Source[TextOrPair]:
        """Returns the texts or pairs: of arguments, of the file, or of the lines of stdin."""
        texts = self.text or []
        if self.texts is None:
            if self.columns or self.limit:
                raise UsageError("--columns and --limit go with --texts")
            if pair is not None and (len(texts) != 1 or texts == ["-"]):
                raise UsageError("--pair goes with exactly one TEXT")
            read = [*read_texts(texts)]
            places = [f"TEXT {index}" if line is None else f"line {line}" for index, (line, _) in enumerate(read, start=1)]
            return Source([text if pair is None else (text, pair) for _, text in read], places)
        path = self.texts
        if texts or pair is not None:
            raise UsageError("give either TEXT or --texts FILE")
        if path.suffix.lower() == TREEBANK:
            sentences = source_of(path, lambda: read_conllu(path, limit=self.limit))
            return Source([sentence.text for sentence in sentences.items], sentences.places, sentences.left_out)
        names = specifications.columns("--columns", self.columns)
        return source_of(path, lambda: files.read_inputs(path, columns=names, limit=self.limit))


@dataclass(frozen=True)
class DescribeOptions(LookOptions, TextFileOptions):
    """The texts to describe, and how."""

    describe: Annotated[bool, option("--describe", "Describe heads over many texts: statistics and pattern classes.")] = False
    compare: Annotated[
        str | None, option("--compare MODEL", "Compare heads with those of another model, or of this one under interventions.")
    ] = None
    punctuation: Annotated[
        list[str] | None, option("--punctuation PIECE", 'Counts as punctuation; "." and "," unless set. Repeatable.')
    ] = None
    head_distances: Annotated[bool, option("--distances", "Also compute how differently heads attend.")] = False
    picture: Annotated[
        Literal["patterns", "statistics", "clusters"] | None,
        option("--picture", "What --plot draws; patterns unless set. clusters implies --distances."),
    ] = None
    output: Annotated[
        Path | None, option("--output FILE", "Write a row for each head: .csv, .tsv, .jsonl, .parquet, .tex.")
    ] = None

    def files(self, plot: Path | None) -> OutputOptions:
        """Returns the files to write."""
        return OutputOptions(self.dark, self.width, self.font_size, self.no_title, plot, self.output)

    def require_describe(self) -> None:
        """Raises UsageError for an option that means nothing without --describe."""
        own = values_of(self, "texts", "columns", "limit", "punctuation", "head_distances", "picture", "output")
        refuse(own, "goes with --describe or --compare")

    def require_compare(self) -> None:
        """Raises UsageError for an option that means nothing with --compare."""
        refuse(values_of(self, "describe", "head_distances", "picture"), "does not go with --compare")
