"""Measures whether a model puts languages in one space, by the same plain sentences in each (Pires et al. 2019)."""

from collections import Counter
from typing import Literal

import numpy as np
import numpy.typing as npt
from bertscope import ProbeText

from bertscope_workbench.analyses.retrieval import retrieve_sentences
from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.numbers import divided
from bertscope_workbench.papers.items.word_tasks import labels_of, marked
from bertscope_workbench.papers.measures.probing import best_beside, train_and_apply
from bertscope_workbench.papers.measures.sentences import crossed, sentences
from bertscope_workbench.papers.pictures_data import ACROSS, curves
from bertscope_workbench.readers.treebanks import read_probe_conllu

Values = npt.NDArray[np.float64]
LEAST = 2
"""Languages to compare."""
ONE_LANGUAGE = "the model is asked in one language: --language en --language ko"
SENTENCES = 800
"""The most sentences of a treebank."""


def found(asking: Asking, *, centred: bool, control: Literal["spelling", "unshifted"]) -> Measured:
    """Measures the share of sentences whose translation is nearer than all other sentences of the second language, at the layer
    that does best on the other half of the sentences; with `centred` after each language's mean is subtracted.

    The control is the share whose translation shares the most letter trigrams with it ("spelling"), or the share without the
    shift, at its own best layer ("unshifted"). Items are sentences; both directions of a sentence are averaged.
    """
    right, spelled = _retrieved(asking, centred=centred), _spelled(asking)
    scored, best = crossed(right)
    other = spelled if control == "spelling" else crossed(_retrieved(asking, centred=False))[0]
    layers = [*range(right.shape[1])]
    lines = {
        "mean subtracted" if one else "as they are": _retrieved(asking, centred=one).mean(0).tolist()
        for one in (centred, not centred)
    }
    lines |= {"same letters": [float(spelled.mean())] * len(layers), "chance": [1 / len(right)] * len(layers)}
    return paired(
        scored,
        other,
        bounds=(-1, 1),
        data=_source(asking, len(right)),
        picture=curves(ACROSS, layers, "share found", lines),
        notes=["layers, each chosen on the other half: " + ", ".join(map(str, dict.fromkeys(best)))],
    )


def identity(asking: Asking) -> Measured:
    """Measures the share of sentences whose language a probe names, of sentences that it was not trained on in any language,
    beside the commonest language. Items are sentences; their translations are averaged."""
    lines = _lines(asking)
    parts = [
        [ProbeText(line, [(code, 0, len(line))]) for one in part for code, own in lines.items() for line in own[one : one + 1]]
        for part in divided(range(len(lines[asking.language])), 0)
    ]
    of = train_and_apply(asking, "language", *parts, truncate=False)
    return best_beside(
        of,
        1 / len(lines),
        groups=[text // len(lines) for text in range(len(parts[2]))],
        bounds=(-1 / len(lines), 1 - 1 / len(lines)),
        data=_source(asking, len(parts[2]) // len(lines)),
        lines={"chance": 1 / len(lines)},
        notes=[f"layer {of.best} has the least loss on the sentences that end training"],
    )


def transfer(asking: Asking) -> Measured:
    """Measures the share of parts of speech in the second language that a probe of the first one's treebank gets right, of
    words that the first one's sentences do not have, beside the second one's commonest part of speech. Items are sentences.

    Treebanks are files of --data whose names begin with the language, as those of Universal Dependencies do:
    "ko_gsd-ud-dev.conllu". Raises NotAsked without one of both.
    """
    if len(set(asking.languages)) < LEAST:
        raise NotAsked(ONE_LANGUAGE)
    first, second = (_tagged(asking, code) for code in asking.languages[:2])
    known = {marked(text, label).lower() for text in first for label in labels_of(text)}
    new = [ProbeText(text.text, [one for one in labels_of(text) if marked(text, one).lower() not in known]) for text in second]
    test = [text for text in new if text.labels]
    tags = Counter(label for text in test for label, *_ in text.labels)
    if not tags:
        raise NotAsked("the second language's sentences have no word that the first one's lack")
    of = train_and_apply(asking, "upos", first[::2], first[1::2], test, truncate=False)
    return best_beside(
        of,
        max(tags.values()) / tags.total(),
        groups=[index for index, text in enumerate(test) for _ in text.labels],
        data=f"{tags.total()} words of {len(test)} sentences in {asking.languages[1]!r}, a probe trained on "
        f"{of.found.train.spans} words in {asking.languages[0]!r} (--data)",
        lines={},
        notes=[f"layer {of.best} has the least loss on other sentences in {asking.languages[0]!r}"],
    )


def _tagged(asking: Asking, code: str) -> list[ProbeText]:
    """Returns the first treebank of a language with parts of speech."""
    files = asking.data.files(f"{code}_*.conllu")
    if not files:
        raise NotAsked(f"no treebank of the language {code!r}: give one by --data, named {code}_*.conllu")
    return [*read_probe_conllu(files[0], "upos", limit=asking.data.limit or SENTENCES)]


def _lines(asking: Asking) -> dict[str, list[str]]:
    """Returns the same sentences in each language. Raises NotAsked for fewer than two languages."""
    if len(set(asking.languages)) < LEAST:
        raise NotAsked(ONE_LANGUAGE)
    found = {code: sentences(asking, code) for code in asking.languages}
    if len({len(own) for own in found.values()}) > 1:
        raise NotAsked("the sentences of the languages are not the same ones")
    return found


def _pairs(asking: Asking) -> tuple[list[str], list[str]]:
    """Returns the sentences in the first language and in the second."""
    first, second, *_ = _lines(asking).values()
    return first, second


def _retrieved(asking: Asking, *, centred: bool) -> Values:
    """Returns the share of both directions in which a sentence's translation is nearest, [sentences, layers]."""

    def make() -> Values:
        first, second = _pairs(asking)
        retrieved = retrieve_sentences(
            asking.client, first, second, model=asking.model, centred=centred, truncate=True, timeout=asking.timeout
        )
        found: Values = np.mean([retrieved.forward_ranks == 1, retrieved.backward_ranks == 1], axis=0).T
        return found

    return asking.kept(f"retrieved {centred}", make)


def _spelled(asking: Asking) -> Values:
    """Returns the share of both directions in which a sentence's translation has the largest share of letter trigrams in common
    with it, [sentences]; sentences that have as much count as wrong."""
    first, second = ([_trigrams(text) for text in side] for side in _pairs(asking))
    alike = np.array([[len(one & other) / len(one | other) for other in second] for one in first])
    own = np.diag(alike).copy()
    np.fill_diagonal(alike, -1)
    found: Values = np.mean([own > alike.max(0), own > alike.max(1)], axis=0)
    return found


def _trigrams(text: str) -> set[str]:
    padded = f"  {text.lower()} "
    return {padded[start : start + 3] for start in range(len(padded) - 2)}


def _source(asking: Asking, count: int) -> str:
    return f"{count} plain sentences of our own in the languages {', '.join(asking.languages)} (licence of the project)"
