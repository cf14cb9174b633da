"""Reads facts as LAMA (Petroni et al. 2019), ParaRel (Elazar et al. 2021) and mLAMA (Kassner et al. 2021) publish them, and the
misprimed probes of Kassner and Schütze 2020."""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from bertscope import Fact, FactRelation, FactTemplate
from bertscope.errors import invalid_argument

from bertscope_workbench.papers.keys import Keys
from bertscope_workbench.papers.published.item_kinds import Blank, Item, Known, Read, Templates, find_files
from bertscope_workbench.papers.published.reproduction import Reproduction
from bertscope_workbench.papers.published.tables import MASK, OBJECT, SUBJECT
from bertscope_workbench.readers.fact_files import read_facts
from bertscope_workbench.readers.files import ItemKind, read_items
from bertscope_workbench.readers.item_lists import Items
from bertscope_workbench.readers.table_rows import json_object, text_lines

PRIMES = ("high_ranked", "low_ranked", "random")
"""Folders of misprimed probes, by how the primes were chosen."""


def read_masked_sentences(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads LAMA's SQuAD and ConceptNet: JSON Lines with "masked_sentences", of which the first is taken, and "obj_label"."""
    for row in read_items(path, ItemKind(("masked_sentences", "obj_label"), ("pred",), dict)):
        text = _first(row["masked_sentences"])
        if text.count(MASK) == 1:
            yield Blank(text, (str(row["obj_label"]),), (str(row["pred"]),) if "pred" in row else ())
        else:
            found.skipped.add("the sentence has not exactly one mask", text)


def options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys of the reader of facts."""
    found: dict[str, Any] = {
        "templates": keys.texts("templates", ()),
        "relations": _sentences(keys, "relations"),
        "negated": _sentences(keys, "negated"),
        "negate": keys.take("negate", bool, False),
        "candidates": keys.take("candidates", bool, False),
        "prime": keys.take("prime", bool, False),
        "uhn": keys.take("uhn", bool, False),
        "suffix": keys.take("suffix", str, ""),
        "columns": keys.take("columns", dict, {}),
        "languages": keys.take("languages", bool, False),
    }
    if not found["templates"] and not found["relations"]:
        raise keys.error(
            "templates", 'is missing; write templates = ["relations.jsonl"] or relations = {name = ["[X] is [Y]."]}'
        )
    return found


def read_facts_of(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads the facts of one relation, which the file is named after, as LAMA, ParaRel and mLAMA publish them.

    Templates are in the definition, or in files: LAMA's relations.jsonl, ParaRel's patterns, mLAMA's templates.jsonl, which
    lies beside the facts of a language. With `candidates` objects are ranked among those of the relation's facts. With `prime`
    a fact without primes gets one: another object of the relation, by a checksum of the subject. As in LAMA, a fact that
    is there twice is asked once, and one that more raters deny than affirm ("judgments" of Google-RE) is left out.
    """
    chosen = reproduction.options
    stem = path.stem.removesuffix(chosen["suffix"])
    texts, negated = _templates(reproduction, path, stem, found)
    facts = read_facts(path, columns=chosen["columns"] or None, relation=stem)
    if not texts or (chosen["negate"] and not negated):
        for fact in facts:
            found.skipped.add(f"the relation has no {'negated ' if texts else ''}template", f"{stem}, {fact.subject}")
        return
    asked = _asked_facts(facts, path, found)
    language = path.parent.name if chosen["languages"] else ""
    name = f"{language} {stem}".strip()
    objects = sorted({word for fact in facts for word in fact.objects})
    templates = [*(FactTemplate(text) for text in texts), *(FactTemplate(text, negated=True) for text in negated)]
    relation = FactRelation(name, templates, objects if chosen["candidates"] else ())
    groups = (language, name) if language else (name,)
    for fact in asked:
        primes = (cast("tuple[str, ...]", fact.primes) or _drawn(fact, objects)) if chosen["prime"] else ()
        if primes or not chosen["prime"]:
            yield Known(Fact(fact.subject, fact.objects, name, primes), relation, groups)
        else:
            found.skipped.add("the relation has no other object that could misprime", f"{stem}, {fact.subject}")


def read_misprimed(reproduction: Reproduction, path: Path, found: Read) -> Iterator[Item]:
    """Reads LAMA_primed_negated of Kassner and Schütze: JSON Lines with "masked_sentences", of which the first is taken,
    "obj_label", and "masked_misprimed", the same sentence after a word and a question mark.

    Groups are the corpus, which is the folder above that of the file's kind of prime ("high_ranked"), and the relation.
    """
    names = path.parts
    corpus = next((names[place - 1] for place, name in enumerate(names) if name in PRIMES), path.parent.name)
    stem = path.stem.removesuffix("_random")
    for row in read_items(path, ItemKind(("masked_sentences", "obj_label", "masked_misprimed"), ("pred",), dict)):
        text, primed = _first(row["masked_sentences"]), _first(row["masked_misprimed"])
        prime = primed.removesuffix(f"? {text}")
        groups = (corpus,) if stem.casefold() == corpus.casefold() else (corpus, stem)
        item = as_fact(text, (str(row["obj_label"]),), groups, (prime,)) if text.count(MASK) == 1 and prime != primed else None
        if item is None:
            found.skipped.add("it is not one sentence with a mask, and the same after a word", text)
        else:
            yield item


def as_fact(text: str, answers: tuple[str, ...], groups: tuple[str, ...], primes: tuple[str, ...] = ()) -> Known | None:
    """Returns a sentence with a mask as a fact, which `query_facts` ranks; None for a sentence without another word.

    Its first word is the subject, and the rest is the template.
    """
    words = text.split(" ")
    place = next((place for place, word in enumerate(words) if word and MASK not in word), None)
    if place is None or any(mark in text for mark in (SUBJECT, OBJECT)):
        return None
    template = " ".join([*words[:place], SUBJECT, *words[place + 1 :]]).replace(MASK, OBJECT)
    return Known(Fact(words[place], answers, template, primes), FactRelation(template, template), groups)


def _first(sentences: object) -> str:
    return sentences if isinstance(sentences, str) else " ".join(map(str, cast("list[object]", sentences)[:1]))


def _asked_facts(facts: Items[Fact], path: Path, found: Read) -> list[Fact]:
    """Returns the facts that LAMA asks; the others are counted."""
    denied = _denied(path)
    asked: dict[tuple[str, tuple[str, ...]], Fact] = {}
    for number, fact in zip(facts.lines, facts, strict=True):
        key = fact.subject, cast("tuple[str, ...]", fact.objects)
        if number in denied:
            found.skipped.add("more raters deny it than affirm it", f"{path.stem}, {fact.subject}")
        elif key in asked:
            found.skipped.add("it is there twice", f"{path.stem}, {fact.subject}")
        else:
            asked[key] = fact
    return list(asked.values())


def _denied(path: Path) -> set[int]:
    """Returns the numbers of the lines whose "judgments" are "yes" less often than not."""
    denied = set()
    for number, line in text_lines(path) if path.suffix.lower() == ".jsonl" else ():
        judgments = json_object(path, number, line, ()).get("judgments") if '"judgments"' in line else None
        if isinstance(judgments, list):
            yes = sum(isinstance(each, dict) and each.get("judgment") == "yes" for each in judgments)
            if len(judgments) - yes > yes:
                denied.add(number)
    return denied


def _drawn(fact: Fact, objects: Sequence[str]) -> tuple[str, ...]:
    """Returns one of the objects that is not right, by a checksum of the subject; none if there is none."""
    right = {word.casefold() for word in fact.objects}
    others = [word for word in objects if word.casefold() not in right]
    return (others[zlib.crc32(fact.subject.encode()) % len(others)],) if others else ()


def _templates(reproduction: Reproduction, path: Path, stem: str, found: Read) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the templates of a relation, and its negated ones."""
    texts: tuple[str, ...] = reproduction.options["relations"].get(stem, ())
    negated: tuple[str, ...] = reproduction.options["negated"].get(stem, ())
    folder = path.parent if reproduction.options["languages"] else found.folder
    if folder is not None and reproduction.options["templates"]:
        more = templates_of(folder, reproduction.options["templates"], found).get(stem, Templates())
        texts, negated = (*texts, *more.texts), (*negated, *more.negated)
    if not reproduction.options["negate"]:
        negated = ()
    return tuple(dict.fromkeys(texts)), tuple(dict.fromkeys(negated))


def _sentences(keys: Keys, key: str) -> dict[str, tuple[str, ...]]:
    given = keys.take(key, dict, {})
    found = {name: (value,) if isinstance(value, str) else tuple(value) for name, value in given.items()}
    for name, texts in found.items():
        if not texts or not all(isinstance(text, str) and SUBJECT in text and OBJECT in text for text in texts):
            raise keys.error(key, f"{name!r} must have sentences with [X] and [Y]")
    return found


def templates_of(folder: Path, patterns: tuple[str, ...], found: Read) -> dict[str, Templates]:
    """Returns the templates of relations in the files of a folder, which are read once."""
    if folder not in found.templates:
        by_name = found.templates[folder] = {}
        for path in find_files(folder, patterns):
            for number, line in text_lines(path):
                row = json_object(path, number, line, ("relation", "template"))
                text = row.get("template", row.get("pattern"))
                if not isinstance(text, str) or SUBJECT not in text or OBJECT not in text:
                    raise invalid_argument(f"{path}, line {number}", "needs a template, or a pattern, with [X] and [Y]")
                name = str(row.get("relation", path.stem))
                negated = row.get("template_negated")
                before = by_name.get(name, Templates())
                by_name[name] = Templates((*before.texts, text), (*before.negated, *([str(negated)] if negated else [])))
    return found.templates[folder]
