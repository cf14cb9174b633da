"""Names the readers of published data, and finds their files in a folder.

A reader takes files as they were published and returns their items. What it does not take is counted, with the reason.
"""

import importlib.resources
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscope import InvalidArgument
from bertscope.errors import invalid_argument
from bertscope.values.display import record

from bertscope_workbench.papers.keys import Keys
from bertscope_workbench.papers.published import agreement, diagnostics, facts, stereotypes, tables
from bertscope_workbench.papers.published.item_kinds import Blank, Item, Read, find_files
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.readers.fact_files import read_words


def no_keys(_: Keys) -> Mapping[str, Any]:
    """Returns the keys of a reader that has none of its own."""
    return {}


WHERE = "; name their folder with --data"
"""The end of what says that files are missing."""
READERS = {
    "table": (tables.options, tables.read),
    "gulordava": (agreement.options, agreement.read_gulordava),
    "linzen": (agreement.options, agreement.read_linzen),
    "marvin-linzen": (agreement.options, agreement.read_marvin_linzen),
    "cprag": (no_keys, diagnostics.read_cprag),
    "role": (no_keys, diagnostics.read_role),
    "negation-simple": (no_keys, diagnostics.read_negation_simple),
    "negation-natural": (no_keys, diagnostics.read_negation_natural),
    "facts": (facts.options, facts.read_facts_of),
    "masked-sentences": (no_keys, facts.read_masked_sentences),
    "crows-pairs": (no_keys, stereotypes.read_crows_pairs),
    "stereoset": (no_keys, stereotypes.read_stereoset),
    "misprimed": (no_keys, facts.read_misprimed),
}
"""By name: what checks a reader's own keys, and the reader."""


@record
class Questions:
    """A reproduction with its items."""

    reproduction: Reproduction
    read: Read
    missing: str = ""
    """The reason why there are no items; empty if there are."""

    @property
    def by_facts(self) -> bool:
        """True if its items are asked by `query_facts`."""
        return self.reproduction.ask == "fact" or bool(self.read.vocabulary)

    @property
    def as_declared(self) -> bool:
        """True unless ranks are among another vocabulary than the declared one, so that published figures don't compare."""
        return self.read.vocabulary_file is None or bool(self.reproduction.vocabulary)


def read_questions(
    reproduction: Reproduction,
    folder: Path | None,
    limit: int | None,
    vocabulary: Path | None = None,
    own: Sequence[Path] = (),
) -> Questions:
    """Returns the items of a reproduction, the first `limit` of each file; without files, what is missing. What the run writes
    itself, its `own`, is no data.

    With a `vocabulary`, a file of words, one a line, such as LAMA's common vocabulary, blanks become facts, which are ranked
    among its words; it replaces the declared one. Raises InvalidArgument for a broken file, and OSError.
    """
    if reproduction.shipped:
        data = importlib.resources.files("bertscope_workbench.papers").joinpath("reproductions")
        paths = [Path(str(data.joinpath(name))) for name in reproduction.files]
    elif folder is None:
        return Questions(reproduction, Read(), f"{reproduction.name} needs {' or '.join(reproduction.files)}{WHERE}")
    else:
        paths = find_files(folder, reproduction.files, own)
    if not paths:
        return Questions(
            reproduction, Read(), f"{reproduction.name} needs {' or '.join(reproduction.files)}, which {folder} does not have"
        )
    read: Callable[[Reproduction, Path, Read], Iterator[Item]] = READERS[reproduction.reader][1]
    found = Read(folder=None if reproduction.shipped else folder)
    for path in paths:
        try:
            items = [*read(reproduction, path, found)][:limit]
        except InvalidArgument as error:
            raise _of_claim(reproduction, error) from error
        found.items += items
        found.files.append(f"{path.name if reproduction.shipped else path}: {len(items)} items")
    if not reproduction.ranks or not (vocabulary or reproduction.vocabulary):
        return Questions(reproduction, found)
    words = vocabulary or next(iter(find_files(folder, (reproduction.vocabulary,)) if folder else ()), None)
    if words is None:
        where = "put it into the folder of --data, or name it with --vocabulary"
        needs = f"{reproduction.name} needs {reproduction.vocabulary}; {where}"
        return Questions(reproduction, Read(), needs)
    found.vocabulary, found.vocabulary_file = tuple(read_words(words)), words
    found.files.append(f"{words}: {len(found.vocabulary)} words, among which ranks are")
    found.items = _as_facts(found)
    return Questions(reproduction, found)


def _of_claim(reproduction: Reproduction, error: InvalidArgument) -> InvalidArgument:
    """Returns the error of a file with the claim that it was read for; a pattern may have found the file of other data."""
    (violation,) = error.field_violations
    apart = "; if it is no file of these data, name a folder of them alone with --data"
    more = apart if any("*" in pattern for pattern in reproduction.files) else ""
    return invalid_argument(f"claim {reproduction.name}, {violation.field}", f"{violation.description}{more}")


def _as_facts(found: Read) -> list[Item]:
    made: list[Item] = []
    for item in found.items:
        fact = facts.as_fact(item.text, item.answers, item.groups) if isinstance(item, Blank) else item
        if fact is None:
            found.skipped.add("its sentence has no word beside the mask", item.example())
        else:
            made.append(fact)
    return made
