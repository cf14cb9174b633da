"""Reads sets about stereotypes as they are published: CrowS-Pairs (Nangia et al. 2020) and StereoSet (Nadeem et al. 2021)."""

import csv
import difflib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bertscope.errors import invalid_argument

from bertscope_workbench.papers.published.item_kinds import Association, Item, Pair, Parts, Read
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.readers.table_rows import bad_line

WORD = re.compile(r"\w+|[^\w\s]")
"""Words and marks, as BERT's tokenizer divides them before it makes pieces."""
COLUMNS = ("sent_more", "sent_less", "stereo_antistereo", "bias_type")
DIRECTIONS = {"stereo": "stereotype", "antistereo": "anti-stereotype"}
LABELS = ("stereotype", "anti-stereotype", "unrelated")
BLANK = "BLANK"


def read_crows_pairs(part: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads crows_pairs_anonymized.csv: the more stereotypical sentence and the less stereotypical one, of which the words that
    both have are scored. Groups are the kind of bias, and the direction of the pair."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            for name in COLUMNS:
                if name not in (reader.fieldnames or ()):
                    raise bad_line(path, 1, f"has no column {name!r}; it must name its columns as CrowS-Pairs does")
            for row in reader:
                more, less, direction, bias = (str(row[name] or "").strip() for name in COLUMNS)
                if direction not in DIRECTIONS or not (more and less and bias):
                    raise bad_line(path, reader.line_num, "must have two sentences, stereo or antistereo, and a bias_type")
                parts = shared_words(more, less)
                if parts[0]:
                    yield Pair(more, less, (bias, DIRECTIONS[direction]), parts)
                else:
                    found.skipped.add("the sentences have no word in common", more)
    except (UnicodeDecodeError, csv.Error) as error:
        raise invalid_argument(str(path), f"is no table of CrowS-Pairs in UTF-8 ({error})") from None


def read_stereoset(part: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads the sentences of StereoSet's dev.json or test.json whose blank is in them ("intrasentence"). Groups are the target
    term, and the kind of bias."""
    try:
        examples = json.loads(path.read_text("utf-8"))["data"]["intrasentence"]
        for number, example in enumerate(examples, start=1):
            yield from _association(f"{path}, data.intrasentence {number}", example, found)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise invalid_argument(str(path), f"is not JSON in UTF-8 ({error}); give dev.json or test.json of StereoSet") from None
    except KeyError as error:
        raise invalid_argument(
            str(path), f"is not StereoSet's file: it has no {error}; give its dev.json or test.json"
        ) from None
    except (TypeError, AttributeError, RecursionError):
        raise invalid_argument(
            str(path), "is not StereoSet's file: it has another form; give its dev.json or test.json"
        ) from None


def shared_words(one: str, other: str) -> tuple[Parts, Parts]:
    """Returns the places of the words that two sentences have in common, in their order, letter case ignored; places are of
    code points, and both have as many.

    The authors compare the model's pieces, and so do these words where a word is one piece.
    """
    spans = [[match.span() for match in WORD.finditer(text)] for text in (one, other)]
    words = [[text[start:end].lower() for start, end in own] for text, own in zip((one, other), spans, strict=True)]
    blocks = difflib.SequenceMatcher(None, words[0], words[1], autojunk=False).get_matching_blocks()
    first, second = (
        [own[block[side] + step] for block in blocks for step in range(block.size)] for side, own in enumerate(spans)
    )
    return tuple(first), tuple(second)


def _association(where: str, example: Mapping[str, Any], found: Read) -> Iterator[Item]:
    context: str = example["context"]
    if context.count(BLANK) != 1:
        raise invalid_argument(where, f"its context has {context.count(BLANK)} times {BLANK}; it must be there once")
    sentences = {each["gold_label"]: each["sentence"] for each in example["sentences"]}
    missing = [label for label in LABELS if label not in sentences]
    if missing:
        raise invalid_argument(where, f"has no sentence with the gold_label {missing[0]!r}")
    texts = tuple(sentences[label] for label in LABELS)
    places = [_blank(context, text) for text in texts]
    if all(places):
        yield Association(texts, tuple((place,) for place in places if place), (example["target"], example["bias_type"]))
    else:
        found.skipped.add("a sentence is not its context with a word in place of the blank", texts[places.index(None)])


def _blank(context: str, text: str) -> tuple[int, int] | None:
    """Returns the place of the words that fill the blank; None if the sentence is another. Blanks, letter case and marks around
    them do not count, as the published sentences differ in these."""
    before, after = (_letters(each) for each in context.split(BLANK))
    words = [match.span() for match in re.finditer(r"\w+(?:['’-]\w+)*", text)]
    fitting: Sequence[tuple[int, int]] = [
        (start, end)
        for index, (start, _) in enumerate(words)
        for _, end in words[index:]
        if _letters(text[:start]) == before and _letters(text[end:]) == after
    ]
    return fitting[0] if fitting else None


def _letters(text: str) -> str:
    return re.sub(r"\W+", "", text).lower()
