"""The questions of the Find view: the sentences that are looked in, and where in them a unit of a model is largest."""

import asyncio
import importlib.resources
import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from types import MappingProxyType
from typing import Any

from bertscope import AsyncClient, Contexts, NearestTo, Place, TagCount, TextsProgress, count_tags
from bertscope.errors import invalid_argument

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.plain import plain
from bertscope_workbench.explore.questions.find_files import direction, every_code
from bertscope_workbench.explore.streams import Event, with_progress
from bertscope_workbench.explore.written_files import written
from bertscope_workbench.papers.items import plain_sentences
from bertscope_workbench.readers.conllu import Sentence, read_sentences
from bertscope_workbench.readers.item_lists import PartialItems
from bertscope_workbench.readers.treebanks import UPOS

MAX_TEXTS = 5000
"""Sentences of a corpus that the page looks in."""
BEST = 30
OF_A_TENTH = 5
"""Places that are shown of each unit: the best ones, and of each tenth of a sample."""
SHOWN = 1000
"""Words of the sentences shown that get a value."""
NUMBERS_OF = MappingProxyType({"head": 2, "neuron": 2, "state": 1, "probe": 2, "code": 2})
"""Numbers in the written form of a unit, the first one its layer."""
FEW, LEAST_WORDS, OUTSTANDING = 5, 3, 12
"""Best places of a unit, how many words these have at least, and how many units are shown that stand out."""
MOST_DIGITS = 6
COUNTED, LEAST_TEXTS = 100, 20
"""Best places whose tags are counted, and of how many texts at least."""
TAG = re.compile(r"(\d{1,6})-(\d{1,6})-(\S{1,100})")
EXAMPLES = importlib.resources.files("bertscope_workbench.explore") / "static" / "examples.conllu"
CONLLU = ".conllu"

Tagged = tuple[str, list[tuple[int, str, int]] | None]
"""A sentence, and of each word the first code point, the tag, and one past the last code point, if it has tags."""


async def corpus(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Reads sentences: yields `{"texts": [...], "tags": [[[start, tag, end], ...] or null, ...], "left_out": n,
    "cut": flag}`, at most 5,000; `cut` is true if there are more, `left_out` counts sentences of a treebank that can't be read.

    Fields: contents (empty: the sentences that ship), suffix (".txt" or ".conllu"), name (of the file, for errors).
    """
    contents, suffix, name = body.text("contents", ""), body.text("suffix", ".txt"), body.text("name", "")
    body.done()
    contents = contents.encode("utf-8", "replace").decode("utf-8")
    if suffix not in (".txt", CONLLU):
        raise invalid_argument("suffix", f"must be .txt or {CONLLU}")
    found, left_out = await asyncio.to_thread(_read, contents, suffix, name) if contents else (_shipped(), 0)
    if not found:
        raise invalid_argument("contents", "has no sentence")
    texts, tags = zip(*found[:MAX_TEXTS], strict=True)
    yield {"texts": texts, "tags": tags, "left_out": left_out, "cut": len(found) > MAX_TEXTS}


def _shipped() -> list[Tagged]:
    with importlib.resources.as_file(EXAMPLES) as path:
        tagged = read_sentences(path, None, _tagged, PartialItems[Tagged]())
    return [*tagged, *((text, None) for text in plain_sentences("en"))]


def _lines(contents: str) -> list[Tagged]:
    return [(line.strip(), None) for line in contents.splitlines() if line.strip()]


def _read(contents: str, suffix: str, name: str) -> tuple[list[Tagged], int]:
    """Returns the sentences of a file, and how many can't be read. Raises InvalidArgument for a treebank without any."""
    if suffix != CONLLU:
        return _lines(contents), 0
    with written(contents, CONLLU, name) as path:
        found = read_sentences(path, MAX_TEXTS + 1, _tagged, PartialItems[Tagged]())
    return [*found], len(found.problems)


def _tagged(sentence: Sentence) -> Tagged:
    words = {sentence.spans[place]: sentence.rows[number][UPOS] for number, place in reversed(sentence.places.items())}
    return sentence.text, sorted((span.start, tag, span.end) for span, tag in words.items())


async def find(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Finds where a unit is largest: yields `{"progress": {"done", "total"}}` any number of times, `{"contexts": {"count",
    "mean", "deviation", "edges", "histogram", "best", "tenths", "cut"}}` (`cut`: how many texts are longer than the model
    reads), then `{"values": {text: [[start, end, value], ...]}}` with the values at words of the sentences that those name. A
    place has its text (an index), start, end, partner ([start, end] or null), value and tenth (1 to 10, 10 the largest; 0 of
    the best places).

    Fields: texts (at most 5,000), model, unit ("head:4:10", "neuron:3:217", "state:6", "probe:4:1" or "code:3:217"), only
    (words that are places; empty: all), like and word (of a state: a sentence, and the word in it whose uses are looked for),
    data (of a probe's class or a code: the file in base64; empty: the codes that ship), tags (of each text "0-3-DET 4-7-NOUN";
    empty: none is counted). Tags are counted over more places than those sent, if enough sentences have some: `"tags"` of the
    contexts has the tag that chance explains least, of words and of the partners of heads.
    """
    texts, model, only, tags = _texts(body), body.optional_text("model"), body.texts("only"), _tags(body.texts("tags"))
    unit, like, word, data = body.text("unit"), body.text("like", ""), body.text("word", ""), body.text("data", "")
    body.done()
    asked = await asyncio.to_thread(_unit, unit, like, word, data)

    async def call(on_progress: Callable[[TextsProgress], object]) -> Contexts:
        places, sample = (COUNTED, SHOWN) if tags else (BEST, None)
        return await client.find_contexts(
            texts, model=model, places=places, sample=sample, words=only, truncate=True, on_progress=on_progress, **asked
        )

    shown: list[int] = []
    async with aclosing(
        with_progress(call, lambda found: {"contexts": _contexts(found, tags, codes=unit.startswith("code"))})
    ) as events:
        async for event in events:
            yield event
            if "contexts" in event:
                shown = sorted({place["text"] for name in ("best", "tenths") for place in event["contexts"][name]})
    if shown:
        found = await client.find_contexts([texts[text] for text in shown], model=model, sample=SHOWN, truncate=True, **asked)
        values: dict[int, list[Any]] = {text: [] for text in shown}
        for place in found[0].sample:
            values[shown[place.text_index]].append([place.span.start, place.span.end, plain(place.value)])
        yield {"values": values}


async def find_means(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"heads": [[layer, head, mean], ...]}`: the mean over words of the most that each gives to another word.

    Fields: texts (at most 5,000), model.
    """
    texts, model = _texts(body), body.optional_text("model")
    body.done()
    found = await client.find_contexts(texts, model=model, heads="all", places=1, sample=1, truncate=True)
    yield {"heads": [[one.unit.layer, one.unit.number, plain(one.mean)] for one in found]}


async def find_outstanding(client: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"units": [[number, standard deviations, words], ...]}`: the 12 neurons, or codes, of a layer whose 5 best
    places, of three words or more, are furthest above their mean, in standard deviations; the words are of these places.

    Fields: texts (at most 5,000), model, layer, codes (true: the codes of a file), data (the file, as of `find`).
    """
    texts, model, layer = _texts(body), body.optional_text("model"), body.whole("layer")
    codes, data = body.flag("codes"), body.text("data", "")
    body.done()
    asked: dict[str, Any] = await asyncio.to_thread(every_code, data, layer) if codes else {"neurons": {layer: None}}
    found = await client.find_contexts(texts, model=model, places=FEW, sample=1, truncate=True, **asked)
    yield {"units": await asyncio.to_thread(_outstanding, found, codes=codes)}


def _outstanding(found: Contexts, *, codes: bool) -> list[tuple[int, float, list[str]]]:
    rows: list[tuple[int, float, list[str]]] = []
    for one in found:
        best = [place for place in one.best if place.value or not codes]  # A code that is not active has the value 0.
        words = [place.word.lower() for place in best]
        if one.deviation > 0 and len(set(words)) >= LEAST_WORDS:
            above = (sum(place.value for place in best) / len(best) - one.mean) / one.deviation
            rows.append((one.unit.number, round(above, 1), words))
    return sorted(rows, key=lambda row: -row[1])[:OUTSTANDING]


def _texts(body: Body) -> list[str]:
    texts = body.texts("texts")
    if not 0 < len(texts) <= MAX_TEXTS:
        raise invalid_argument("texts", f"must be 1 to {MAX_TEXTS} sentences")
    return texts


def _unit(unit: str, like: str, word: str, data: str) -> dict[str, Any]:
    """Returns what `find_contexts` takes for a unit. Raises InvalidArgument for a text that names none."""
    kind, _, numbers = unit.partition(":")
    parts = numbers.split(":")
    count = NUMBERS_OF.get(kind, 0)
    if len(parts) != count or not all(part.isascii() and part.isdigit() and len(part) <= MOST_DIGITS for part in parts):
        raise invalid_argument("unit", f"is {unit[:50]!r}; write head:4:10, neuron:3:217, state:6, probe:4:1 or code:3:217")
    layer, *rest = map(int, parts)
    if kind in ("probe", "code"):
        return direction(kind, data, layer, *rest)
    if kind != "state":
        return {f"{kind}s": {layer: rest}}
    start = _place(like, word)
    return {"nearest": NearestTo(like, (start, start + len(word)), layer)}


def _place(text: str, word: str) -> int:
    """Returns where a word begins in a text. Raises InvalidArgument for one that is not there."""
    found = re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text, re.IGNORECASE) if word else None
    if found is None:
        raise invalid_argument("word", f"is {word[:50]!r}, which is no word of the sentence {text[:100]!r}")
    return found.start()


def _tags(texts: Sequence[str]) -> dict[int, list[tuple[str, int, int]]]:
    """Returns the tags of each text by its index. Raises InvalidArgument for those in another form."""
    found: dict[int, list[tuple[str, int, int]]] = {}
    for index, text in enumerate(texts):
        for word in text.split():
            if (matched := TAG.fullmatch(word)) is None:
                raise invalid_argument(f"tags[{index}]", f"has {word[:50]!r}; write 4-7-NOUN")
            found.setdefault(index, []).append((matched[3], int(matched[1]), int(matched[2])))
    return found


def _contexts(contexts: Contexts, tags: Mapping[int, list[tuple[str, int, int]]], *, codes: bool) -> Event:
    """Returns the contexts of a unit as the page reads them; the best places of a code are those where it is active."""
    (found,) = contexts
    tenths = [_sent(place, tenth) for tenth, part in enumerate(found.tenths, start=1) for place in _spread(part)]
    sums = {name: plain(getattr(found, name)) for name in ("count", "mean", "deviation", "edges", "histogram")}
    best = [_sent(place, 0) for place in found.best[:BEST] if place.value or not codes]
    counts = [one for one in count_tags(contexts, tags).best() if one.texts >= LEAST_TEXTS] if tags else []
    return sums | {"cut": contexts.truncated_texts, "best": best, "tenths": tenths, "tags": [_counted(one) for one in counts]}


def _counted(one: TagCount) -> Event:
    low, high, *_ = one.interval()
    numbers = {"share": one.share, "low": low, "high": high, "by_chance": one.by_chance, "p": one.p_corrected}
    return {"of": one.of, "tag": one.tag, "texts": one.texts} | {name: plain(value) for name, value in numbers.items()}


def _spread(part: Sequence[Place]) -> list[Place]:
    """Returns a few places of a tenth, evenly over its values."""
    few = min(OF_A_TENTH, len(part))
    return [part[(2 * index + 1) * len(part) // (2 * few)] for index in range(few)]


def _sent(place: Place, tenth: int) -> Event:
    partner = place.partner_span
    return {
        "text": place.text_index,
        "start": place.span.start,
        "end": place.span.end,
        "partner": partner and [partner.start, partner.end],
        "value": plain(place.value),
        "tenth": tenth,
    }
