"""Reads agreement data as bert-syntax publishes and uses them (Goldberg 2019): Gulordava, Linzen, Marvin and Linzen."""

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument

from bertscope_workbench.papers.keys import Keys
from bertscope_workbench.papers.published.item_kinds import Choice, Item, Read
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.papers.published.tables import MASK
from bertscope_workbench.readers.table_rows import bad_line, text_lines

END = "<eos>"
MARK = "***mask***"
COLUMNS = ("sent", "class", "form", "len_prefix", "n_attr", "type")


def options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys that these readers have: `skip_words`, forms whose items are left out."""
    return {"skip_words": keys.texts("skip_words", ())}


def read_gulordava(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads the table of Gulordava et al. 2018: two lines for each item, the right form and then the wrong one.

    Sentences are lower-cased, their end mark is taken off, and the word after the prefix is masked. Groups are the type
    ("original" or "generated") and the number of attractors.
    """
    try:
        rows = list(_rows(path))
    except UnicodeDecodeError as error:
        raise invalid_argument(str(path), f"is not UTF-8 ({error.reason})") from None
    except csv.Error as error:
        raise invalid_argument(str(path), f"is no table with tabs and quotes ({error})") from None
    if len(rows) % 2:
        raise bad_line(path, rows[-1][0], "has no second line; each item has one with the right and one with the wrong form")
    for (number, right), (other, wrong) in zip(rows[::2], rows[1::2], strict=True):
        if (right["class"], wrong["class"], right["sent"]) != ("correct", "wrong", wrong["sent"]):
            raise bad_line(path, other, "is not the wrong form of the line before it")
        words = right["sent"].lower().split()
        place = right["len_prefix"]
        if words[-1:] != [END] or not place.isdigit() or int(place) >= len(words) - 1:
            raise bad_line(path, number, f"the sentence must end with {END} and be longer than its prefix")
        words[int(place)] = MASK
        if not _left_out(reproduction, found, right["form"], wrong["form"]):
            groups = (right["type"], f"{right['n_attr']} attractors")
            text = " ".join(words[:-1])
            yield Choice(((text, right["form"]), (text, wrong["form"])), groups)


def read_linzen(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads the data of Linzen et al. 2016 as bert-syntax's make_linzen_goldberg_testset.py writes them, without a head line:
    number of attractors, another column, the sentence with ***mask***, the right form, the wrong form."""
    for number, cells in lines(path):
        if len(cells) != 5 or cells[2].count(MARK) != 1:
            raise bad_line(path, number, f"must have five columns, the third with {MARK} once")
        if not _left_out(reproduction, found, cells[3], cells[4]):
            text = cells[2].replace(MARK, MASK)
            yield Choice(((text, cells[3]), (text, cells[4])), (f"{cells[0]} attractors",))


def read_marvin_linzen(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads marvin_linzen_dataset.tsv of bert-syntax: condition, kind, the good sentence and the bad one.

    Pairs that differ in one word are taken; it is masked, and a full stop is added. "inanim" conditions count as "anim".
    """
    for number, cells in lines(path):
        if len(cells) < 4:
            raise bad_line(path, number, "must have a condition, a kind, a good and a bad sentence")
        good, bad = cells[-2].split(), cells[-1].split()
        differ = [place for place, (one, other) in enumerate(zip(good, bad, strict=False)) if one != other]
        if len(good) != len(bad) or len(differ) != 1:
            found.skipped.add("the sentences differ in more than one word", cells[-2])
            continue
        (place,) = differ
        right, wrong = good[place], bad[place]
        if not _left_out(reproduction, found, right, wrong):
            text = " ".join([*good[:place], MASK, *good[place + 1 :], "."])
            yield Choice(((text, right), (text, wrong)), (cells[0].replace("inanim", "anim"),))


def lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the cells of the lines of a table without quotes and without a head line; blank lines are passed over."""
    return ((number, [cell.strip() for cell in line.split("\t")]) for number, line in text_lines(path) if line.strip())


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Yields the rows of a table with quotes and a head line."""
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, delimiter="\t")
        for name in COLUMNS:
            if name not in (reader.fieldnames or ()):
                raise bad_line(path, 1, f"has no column {name!r}; it must be the table of Gulordava et al. 2018")
        for row in reader:
            if None in row.values() or None in row:
                raise bad_line(path, reader.line_num, "has not as many cells as the first line names")
            yield reader.line_num, row


def _left_out(reproduction: Reproduction, found: Read, right: str, wrong: str) -> bool:
    if right not in reproduction.options["skip_words"]:
        return False
    found.skipped.add(f"the right form is one of {', '.join(reproduction.options['skip_words'])}", f"{right}, {wrong}")
    return True
