"""Reads facts as LAMA (Petroni et al. 2019), ParaRel (Elazar et al. 2021) and mLAMA (Kassner et al. 2021) publish them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bertscope import files
from bertscope.errors import invalid_argument
from bertscope.facts.fact_files import read_facts
from bertscope.facts.questions import Fact, FactRelation, FactTemplate
from bertscope.studies.definition import Keys, Part
from bertscope.studies.items import Blank, Item, Known, Read, Templates, find_files
from bertscope.studies.tables import MASK, OBJECT, SUBJECT
from bertscope.table_rows import json_object, text_lines


def no_options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys that these readers have: none."""
    return {}


def read_masked_sentences(part: Part, path: Path, found: Read) -> list[Item]:
    """Reads LAMA's SQuAD and ConceptNet: JSON Lines with "masked_sentences", of which the first is taken, and "obj_label"."""
    made: list[Item] = []
    table = files.read_items(path, ("masked_sentences", "obj_label"), ("pred",), None, None, dict)
    for row in table:
        sentences = row["masked_sentences"]
        text = sentences if isinstance(sentences, str) else " ".join(map(str, sentences[:1]))
        if text.count(MASK) != 1:
            found.skipped.add("the sentence has not exactly one mask", text)
            continue
        made.append(Blank(text, (str(row["obj_label"]),), (str(row["pred"]),) if "pred" in row else ()))
    return made


def options(keys: Keys) -> Mapping[str, Any]:
    """Returns the keys of the reader of facts."""
    found: dict[str, Any] = {
        "templates": keys.texts("templates", ()),
        "relations": _sentences(keys, "relations"),
        "negated": _sentences(keys, "negated"),
        "negate": keys.take("negate", bool, False),
        "candidates": keys.take("candidates", bool, False),
        "suffix": keys.take("suffix", str, ""),
        "columns": keys.take("columns", dict, {}),
        "languages": keys.take("languages", bool, False),
    }
    if not found["templates"] and not found["relations"]:
        raise keys.error(
            "templates", 'is missing; write templates = ["relations.jsonl"] or relations = {name = ["[X] is [Y]."]}'
        )
    return found


def read_facts_of(part: Part, path: Path, found: Read) -> list[Item]:
    """Reads the facts of one relation, which the file is named after, as LAMA, ParaRel and mLAMA publish them.

    Templates are in the definition, or in files: LAMA's relations.jsonl, ParaRel's patterns, mLAMA's templates.jsonl, which
    lies beside the facts of a language. With `candidates` objects are ranked among those of the relation's facts.
    """
    chosen = part.options
    stem = path.stem.removesuffix(chosen["suffix"])
    texts, negated = _templates(part, path, stem, found)
    facts = read_facts(path, columns=chosen["columns"] or None, relation=stem)
    if not texts or (chosen["negate"] and not negated):
        for fact in facts:
            found.skipped.add(f"the relation has no {'negated ' if texts else ''}template", f"{stem}, {fact.subject}")
        return []
    language = path.parent.name if chosen["languages"] else ""
    name = f"{language} {stem}".strip()
    objects = {word for fact in facts for word in fact.objects} if chosen["candidates"] else ()
    templates = [*(FactTemplate(text) for text in texts), *(FactTemplate(text, negated=True) for text in negated)]
    relation = FactRelation(name, templates, sorted(objects))
    groups = (language, name) if language else (name,)
    return [Known(Fact(fact.subject, fact.objects, name), relation, groups) for fact in facts]


def _templates(part: Part, path: Path, stem: str, found: Read) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Returns the templates of a relation, and its negated ones."""
    texts: tuple[str, ...] = part.options["relations"].get(stem, ())
    negated: tuple[str, ...] = part.options["negated"].get(stem, ())
    folder = path.parent if part.options["languages"] else found.folder
    if folder is not None and part.options["templates"]:
        more = templates_of(folder, part.options["templates"], found).get(stem, Templates())
        texts, negated = (*texts, *more.texts), (*negated, *more.negated)
    if not part.options["negate"]:
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
