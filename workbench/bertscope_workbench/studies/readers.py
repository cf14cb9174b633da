"""Names the readers of a study's data, and finds its files in a folder.

A reader takes files as they were published and returns their items. What it does not take is counted, with the reason.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument
from bertscope.values.display import record

from bertscope_workbench.readers.fact_files import read_words
from bertscope_workbench.studies import (
    published_agreement,
    published_diagnostics,
    published_facts,
    published_stereotypes,
    tables,
)
from bertscope_workbench.studies.definition import Definition, Keys, Part, read_definition
from bertscope_workbench.studies.items import Blank, Item, Read, find_files


def no_keys(_: Keys) -> Mapping[str, Any]:
    """Returns the keys of a definition of a reader that has none."""
    return {}


READERS = {
    "table": (tables.options, tables.read),
    "gulordava": (published_agreement.options, published_agreement.read_gulordava),
    "linzen": (published_agreement.options, published_agreement.read_linzen),
    "marvin-linzen": (published_agreement.options, published_agreement.read_marvin_linzen),
    "cprag": (no_keys, published_diagnostics.read_cprag),
    "role": (no_keys, published_diagnostics.read_role),
    "negation-simple": (no_keys, published_diagnostics.read_negation_simple),
    "negation-natural": (no_keys, published_diagnostics.read_negation_natural),
    "facts": (published_facts.options, published_facts.read_facts_of),
    "masked-sentences": (no_keys, published_facts.read_masked_sentences),
    "crows-pairs": (no_keys, published_stereotypes.read_crows_pairs),
    "stereoset": (no_keys, published_stereotypes.read_stereoset),
    "misprimed": (no_keys, published_facts.read_misprimed),
}
"""By name: what checks a reader's own keys of a definition, and the reader."""


@record
class Questions:
    """A part of a study with its items."""

    part: Part
    read: Read
    missing: str = ""
    """The reason why there are no items; empty if there are."""

    @property
    def by_facts(self) -> bool:
        """True if its items are asked by `query_facts`."""
        return self.part.ask == "fact" or bool(self.read.vocabulary)

    @property
    def as_declared(self) -> bool:
        """True unless ranks are among another vocabulary than the definition's, so that published figures don't compare."""
        return self.read.vocabulary_file is None or bool(self.part.vocabulary)


def find_study(name: str) -> Definition:
    """Returns a shipped study by its name, or another by the path of its file, which ends with ".toml".

    Raises InvalidArgument for an unknown name and for a broken definition, and OSError for a file that can't be read.
    """
    return read_definition(name, {reader: check for reader, (check, _) in READERS.items()})


def read_questions(
    definition: Definition,
    folder: Path | None = None,
    *,
    limit: int | None = None,
    only: Sequence[str] = (),
    vocabulary: Path | None = None,
) -> list[Questions]:
    """Returns the items of each part, the first `limit` of each file; a part without files says what is missing.

    `only` names the parts to take. `vocabulary` is a file of words, one a line, such as LAMA's common vocabulary, among which
    blanks and facts are ranked; it replaces that of the definition. Raises InvalidArgument for a broken file, for an unknown
    part, for a vocabulary that no part needs, and if no part has items.
    """
    names = [part.name for part in definition.parts]
    for name in only:
        if name not in names:
            raise invalid_argument("only", f"{name!r} is no part of {definition.name}; these are: {', '.join(names)}")
    if folder is not None and not folder.is_dir():
        raise invalid_argument("data", f"{folder} is not a folder; name the one with the study's files")
    parts = [part for part in definition.parts if not only or part.name in only]
    if vocabulary is not None and not any(part.ranks for part in parts):
        raise invalid_argument("vocabulary", "no part ranks words among a vocabulary; leave it out")
    found = [read_part(part, folder, limit, vocabulary) for part in parts]
    if not any(questions.read.items for questions in found):
        wanted = "; ".join(dict.fromkeys(questions.missing for questions in found if questions.missing))
        raise invalid_argument("data", f"there is nothing to ask: {wanted or 'all items are skipped'}")
    return found


def read_part(part: Part, folder: Path | None, limit: int | None, vocabulary: Path | None = None) -> Questions:
    """Returns the items of one part; with a vocabulary, blanks become facts, which can be ranked among its words."""
    if part.shipped:
        data = importlib.resources.files("bertscope_workbench.studies").joinpath("definitions")
        paths = [Path(str(data.joinpath(name))) for name in part.files]
    elif folder is None:
        return Questions(part, Read(), f"{part.name} needs {' or '.join(part.files)}; name their folder with --data")
    else:
        paths = find_files(folder, part.files)
    if not paths:
        return Questions(part, Read(), f"{part.name} needs {' or '.join(part.files)}, which {folder} does not have")
    read: Callable[[Part, Path, Read], Iterator[Item]] = READERS[part.reader][1]
    found = Read(folder=None if part.shipped else folder)
    for path in paths:
        items = [*read(part, path, found)][:limit]
        found.items += items
        found.files.append(f"{path.name if part.shipped else path}: {len(items)} items")
    if not part.ranks or not (vocabulary or part.vocabulary):
        return Questions(part, found)
    words = vocabulary or next(iter(find_files(folder, (part.vocabulary,)) if folder else ()), None)
    if words is None:
        needs = f"{part.name} needs {part.vocabulary}; put it into the folder of --data, or name it with --vocabulary"
        return Questions(part, Read(), needs)
    found.vocabulary, found.vocabulary_file = tuple(read_words(words)), words
    found.files.append(f"{words}: {len(found.vocabulary)} words, among which ranks are")
    found.items = _as_facts(found)
    return Questions(part, found)


def _as_facts(found: Read) -> list[Item]:
    made: list[Item] = []
    for item in found.items:
        fact = published_facts.as_fact(item.text, item.answers, item.groups) if isinstance(item, Blank) else item
        if fact is None:
            found.skipped.add("its sentence has no word beside the mask", item.example())
        else:
            made.append(fact)
    return made
