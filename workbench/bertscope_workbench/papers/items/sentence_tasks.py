"""Ten tasks about whole sentences, made from a treebank, after SentEval's probing tasks (Conneau et al. 2018, section 2).

Their sentences are a million of books, parsed; ours are those of the treebank, and classes are fewer. Where sentences have to
be changed, half of them are: the sentence itself decides whether and where, so that it is always the same.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from random import Random

from bertscope import ProbeText
from bertscope.values.labelled_texts import Label

from bertscope_workbench.papers.items.treebank import Treebank, feature
from bertscope_workbench.readers.conllu import Sentence
from bertscope_workbench.readers.treebanks import DEPREL, HEAD, UPOS

FORM, LEMMA = 1, 2
Labelled = Callable[[Sentence], ProbeText | None]
Parts = tuple[list[ProbeText], list[ProbeText], list[ProbeText]]
CONTENT_WORDS, TOPS = 20, 10
"""Words to tell apart, and sequences of the root's dependents that have a class of their own."""
LENGTHS = (7, 10, 13)
"""The most words of each class of lengths but the last."""
DEEPEST = 5
SHIFTED, ORIGINAL = "changed", "original"
LEAST_SENTENCES = 60
"""With fewer sentences to train on or to test, a task is not asked."""


def sentence_task(bank: Treebank, name: str) -> Parts | None:
    """Returns the three parts of a task, each sentence as one labelled span; None if too few sentences have a label."""
    label = SENTENCE_TASKS[name](bank)
    train, dev, test = ([text for text in map(label, part) if text is not None] for part in (bank.train, bank.dev, bank.test))
    if min(len(train), len(test)) < LEAST_SENTENCES or len({text.labels[0][0] for text in train}) < 2:
        return None
    return train, dev, test


def _whole(text: str, label: str) -> ProbeText:
    return ProbeText(text, [Label(label, 0, len(text))])


def _as(label_of: Callable[[Sentence], str | None]) -> Callable[[Treebank], Labelled]:
    """Returns a task that leaves sentences as they are."""

    def label(sentence: Sentence) -> ProbeText | None:
        name = label_of(sentence)
        return None if name is None else _whole(sentence.text, name)

    return lambda _: label


def _length(sentence: Sentence) -> str:
    words = len(sentence.rows)
    return str(next((most for most in LENGTHS if words <= most), "more"))


def _depth(sentence: Sentence) -> str:
    def steps(number: int) -> int:
        head = int(sentence.rows[number][HEAD])
        return 0 if head == 0 else 1 + steps(head)

    return str(min(max(map(steps, sentence.rows)), DEEPEST))


def _content(bank: Treebank) -> Labelled:
    counts = Counter(row[LEMMA] for sentence in bank.train for row in sentence.rows.values() if row[UPOS] in ("NOUN", "VERB"))
    wanted = {lemma for lemma, _ in counts.most_common(CONTENT_WORDS)}

    def label(sentence: Sentence) -> ProbeText | None:
        found = {row[LEMMA] for row in sentence.rows.values() if row[UPOS] in ("NOUN", "VERB")} & wanted
        return _whole(sentence.text, found.pop()) if len(found) == 1 else None

    return label


def _tops(bank: Treebank) -> Labelled:
    known = {top for top, _ in Counter(map(_top, bank.train)).most_common(TOPS)}
    return lambda sentence: _whole(sentence.text, top if (top := _top(sentence)) in known else "another")


def _top(sentence: Sentence) -> str:
    """Returns the relations of the root's dependents in order, the root among them: in the place of top constituents."""
    root = _root(sentence)
    names = [
        "root" if number == root else row[DEPREL].partition(":")[0]
        for number, row in sentence.rows.items()
        if number == root or (int(row[HEAD]) == root and row[UPOS] != "PUNCT")
    ]
    return " ".join(names)


def _root(sentence: Sentence) -> int:
    return next(number for number, row in sentence.rows.items() if row[HEAD] == "0")


def _tense(sentence: Sentence) -> str | None:
    root = _root(sentence)
    words = [
        row
        for number, row in sentence.rows.items()
        if number == root or (int(row[HEAD]) == root and row[DEPREL].partition(":")[0] in ("aux", "cop"))
    ]
    return next((tense for row in words if feature(row, "VerbForm") == "Fin" and (tense := feature(row, "Tense"))), None)


def _number(relation: str) -> Callable[[Sentence], str | None]:
    def label(sentence: Sentence) -> str | None:
        root = _root(sentence)
        for row in sentence.rows.values():
            if int(row[HEAD]) == root and row[DEPREL].partition(":")[0] == relation and row[UPOS] in ("NOUN", "PROPN"):
                return feature(row, "Number") or None
        return None

    return label


def _drawn(sentence: Sentence) -> Random:
    return Random(sentence.text)  # noqa: S311  sentences, not secrets


def _shift(_: Treebank) -> Labelled:
    def label(sentence: Sentence) -> ProbeText | None:
        random, spans = _drawn(sentence), sentence.spans
        rows = {place: sentence.rows[number] for number, place in sentence.places.items()}
        places = [
            place
            for place in range(1, len(spans) - 1)
            if all(rows[one][UPOS] not in ("PUNCT", "PART") and rows[one][FORM][0].islower() for one in (place, place + 1))
        ]
        if not places:
            return None
        if random.random() < 0.5:
            return _whole(sentence.text, ORIGINAL)
        chosen = random.choice(places)
        first, second = spans[chosen], spans[chosen + 1]
        return _whole(_swapped(sentence.text, first[:2], second[:2]), SHIFTED)

    return label


def _swapped(text: str, first: Sequence[int], second: Sequence[int]) -> str:
    """Returns a text with two parts in each other's places."""
    between = text[first[1] : second[0]]
    return text[: first[0]] + text[second[0] : second[1]] + between + text[first[0] : first[1]] + text[second[1] :]


def _odd_word(bank: Treebank) -> Labelled:
    words: dict[tuple[str, str], list[str]] = defaultdict(list)
    for sentence in bank.sentences:
        for row in sentence.rows.values():
            if row[UPOS] in ("NOUN", "VERB"):
                words[row[UPOS], row[5]].append(row[FORM].lower())

    def label(sentence: Sentence) -> ProbeText | None:
        random = _drawn(sentence)
        numbers = [number for number, row in sentence.rows.items() if row[UPOS] in ("NOUN", "VERB") and number > 1]
        if not numbers:
            return None
        if random.random() < 0.5:
            return _whole(sentence.text, ORIGINAL)
        number = random.choice(numbers)
        row, (start, end, _) = sentence.rows[number], sentence.spans[sentence.places[number]]
        others = [word for word in words[row[UPOS], row[5]] if word != row[FORM].lower()]
        if not others:
            return None
        return _whole(sentence.text[:start] + random.choice(others) + sentence.text[end:], SHIFTED)

    return label


def _inverted(_: Treebank) -> Labelled:
    def label(sentence: Sentence) -> ProbeText | None:
        root = _root(sentence)
        for number, row in sentence.rows.items():
            if row[DEPREL] == "cc" and row[HEAD] != "0" and _joins_clauses(sentence, int(row[HEAD]), root):
                place, marked = sentence.places[number], sentence.rows[max(sentence.rows)][UPOS] == "PUNCT"
                end = sentence.spans[-2 if marked else -1][1]
                first = sentence.text[: sentence.spans[place][0]].rstrip(" ,")
                if _drawn(sentence).random() < 0.5 or not first:
                    return _whole(sentence.text, ORIGINAL)
                first_words, second = (0, len(first)), (sentence.spans[place][1] + 1, end)
                return _whole(_swapped(sentence.text, first_words, second), SHIFTED)
        return None

    return label


def _joins_clauses(sentence: Sentence, conjunct: int, root: int) -> bool:
    """Tells whether a word is the head of a second main clause with a subject of its own."""
    row = sentence.rows[conjunct]
    subjects = [one for one in sentence.rows.values() if one[DEPREL].startswith("nsubj") and int(one[HEAD]) == conjunct]
    return row[DEPREL] == "conj" and int(row[HEAD]) == root and bool(subjects)


SENTENCE_TASKS: dict[str, Callable[[Treebank], Labelled]] = {
    "length": _as(_length),
    "content": _content,
    "order": _shift,
    "depth": _as(_depth),
    "top": _tops,
    "tense": _as(_tense),
    "subject number": _as(_number("nsubj")),
    "object number": _as(_number("obj")),
    "odd word": _odd_word,
    "inverted clauses": _inverted,
}
"""By name: the number of words; the one of 20 frequent words that a sentence has; two neighbours that changed places; depth of
the tree; the root's dependents; the main verb's tense; the number of its subject, and of its object; a noun or verb in the
place of another; two main clauses that changed places."""
SURFACE, SYNTAX = ("length", "content"), ("order", "depth", "top")
SEMANTICS = ("tense", "subject number", "object number", "odd word", "inverted clauses")
"""Their groups, as Conneau et al. have them."""
KINDS = {"surface": SURFACE, "syntax": SYNTAX, "semantics": SEMANTICS}
