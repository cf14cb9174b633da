"""Defines the options of texts to describe, in a file or not."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from bertscope.values.validation import TextOrPair

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import argument, offered, option
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

    text: list[str] | None = argument("[TEXT]...", "Texts, or lines of stdin.", default=None, without="file")
    file: Path | None = option("--texts FILE", '.txt, .conllu, or columns "text", maybe "text_pair" of a table.')
    columns: options.Columns = None
    limit: int | None = option("--limit N", "Take the first N texts of the file.", min=1, needs="file")

    pair: ClassVar[str | None] = None

    def source(self) -> Source[TextOrPair]:
        """Returns the texts or pairs: of arguments, of the file, or of the lines of stdin."""
        texts, pair = self.text or [], self.pair
        if self.file is None:
            if pair is not None and (len(texts) != 1 or texts == ["-"]):
                raise UsageError("--pair goes with exactly one TEXT")
            read = [*read_texts(texts)]
            places = [f"TEXT {index}" if line is None else f"line {line}" for index, (line, _) in enumerate(read, start=1)]
            return Source([text if pair is None else (text, pair) for _, text in read], places)
        path = self.file
        if path.suffix.lower() == TREEBANK:
            sentences = source_of(path, lambda: read_conllu(path, limit=self.limit))
            return Source([sentence.text for sentence in sentences.items], sentences.places, sentences.left_out)
        return source_of(path, lambda: files.read_inputs(path, columns=self.columns, limit=self.limit))


@dataclass(frozen=True)
class PairFileOptions(TextFileOptions):
    """The same, or one pair."""

    pair: str | None = option(  # type: ignore[misc]  # an option here
        "--pair TEXT", "A second text, read with the one TEXT.", without="file"
    )


HeadFiles = Annotated[OutputOptions, offered(output="Write a row for each head: .csv, .tsv, .jsonl, .parquet, .tex.")]
"""The files of a command that says something of each head."""

Punctuation = Annotated[
    list[str] | None, option("--punctuation PIECE", 'Counts as punctuation; "." and "," unless set. Repeatable.')
]
