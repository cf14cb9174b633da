"""Defines the arguments and options of commands that compare sentences with their translations."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bertscope import InvalidArgument
from bertscope.errors import CLIENT_SIDE

from bertscope_workbench.command.groups import argument, option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.sources import Source
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.readers.translation_files import TEXT, read_translations


@dataclass(frozen=True)
class TranslationOptions:
    """Sentences and their translations, in one file or in two."""

    file: Path = argument(
        "SOURCES",
        'Sentences, one per line; without TARGETS a .txt of "sentence ||| translation", or a table with the columns '
        '"source" and "target".',
    )
    targets: Path | None = argument("TARGETS", "Their translations, line k that of line k of SOURCES.", default=None)
    columns: Mapping[str, str] | None = option(
        "--columns NAME=COLUMN,...", "What a table calls them: source=en,target=de.", reads=specifications.columns
    )
    limit: int | None = option("--limit N", "Take the first N pairs.", min=1)

    def source(self) -> Source[tuple[str, str]]:
        """Returns the pairs. Raises Failure for a file that can't be read."""
        if self.columns and (self.targets is not None or self.file.suffix.lower() == TEXT):
            raise UsageError("--columns goes with a table; a file of lines has no columns")
        try:
            pairs = read_translations(self.file, self.targets, columns=self.columns, limit=self.limit)
        except OSError as error:
            raise Failure(f"cannot read {error.filename or self.file}: {error.strerror}") from error
        return Source(pairs, [f"{self.file}, line {line}" for line in pairs.lines])


@contextmanager
def enough_left(source: Source[tuple[str, str]]) -> Iterator[None]:
    """Turns the client's error that rejected pairs leave too few into a line that names the first of them."""
    try:
        yield
    except InvalidArgument as error:
        if error.reason == CLIENT_SIDE and source.rejected:
            raise Failure(f"too few pairs are left; {source.rejected}") from error
        raise
