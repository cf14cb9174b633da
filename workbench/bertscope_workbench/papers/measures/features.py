"""Measures attention to kinds of words, and how fine-tuning changes maps (Kovaleva et al. 2019, sections 4.3 to 4.5)."""

from collections.abc import Collection
from contextlib import suppress
from typing import Annotated, Literal

import numpy as np
from bertscope import FeatureScore, FeatureScores, FeatureText, Model
from bertscope.questions.attention.sums import PerHead
from bertscope.values.validation import TextOrPair

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.labelled import task_of
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.measures import Between
from bertscope_workbench.papers.measures.sentences import each, sentences, source
from bertscope_workbench.papers.pictures_data import grid
from bertscope_workbench.readers.treebanks import feature_text

MOST = 100
"""The most sentences that are asked."""
LEAST_CHANGE = 1e-5
"""Smaller changes of maps, 1 - cosine, may be rounding."""
NO_COPY = "no fine-tuned copy is named: --fine-tuned MODEL"
FEATURES = ("NOUN", "VERB", "PRON", "subject", "object", "negation")
"""Features of words that the paper asks about; pictures show all that the treebank has."""


def special_beside_features(asking: Asking, *, first_row: bool = False, tuned: bool = False) -> Measured:
    """Measures the attention to the special token that gets most in a sentence, mean over heads, beside the feature of words
    that gets most in it: nouns, verbs, pronouns, subjects, objects, negations. With `tuned`, that of the fine-tuned copy.

    With `first_row`, only that of the first special token in the last layer counts, and the special token is the last one.
    """
    model = asking.fine_tuned if tuned else asking.model
    if model is None:
        raise NotAsked(NO_COPY)
    found, special = _scored(asking, model)
    if not special:
        raise NotAsked("the tokenizer adds no special tokens")
    judged = special[-1:] if first_row else special  # Special tokens come last, in the order of the text.

    def most(one: FeatureScores, names: Collection[str]) -> float:
        return max(float(_heads(one[name], first_row).mean()) for name in names if name in one.features)

    heads = {name: _heads(score, first_row) for name, score in FeatureScores.merge(found).features.items()}
    names = sorted(heads, key=lambda name: -heads[name].mean())
    notes = [f"head with the most, on these sentences: {', '.join(_best(name, heads[name]) for name in names)}"]
    if tuned and (model.layers, model.heads) == (asking.model.layers, asking.model.heads):
        before = FeatureScores.merge(_scored(asking, asking.model)[0]).features
        gains = [_best(name, heads[name] - _heads(before[name], first_row)) for name in names if name in before]
        notes.append(f"head that gains most by fine-tuning: {', '.join(gains)}")
    across = "head of the last layer" if first_row else "layer"
    cells = [heads[name][0] if first_row else heads[name].mean(1) for name in reversed(names)]
    return paired(
        [most(one, judged) for one in found],
        [most(one, FEATURES) for one in found],
        bounds=(-1, 1),
        data=f"{len(found)} {bank_of(asking).source}",
        picture=grid(np.array(cells).tolist(), "attention to it", rows=names[::-1], across=across, down="the most at the top"),
        notes=notes,
    )


def _scored(asking: Asking, model: Model) -> tuple[list[FeatureScores], list[str]]:
    """Returns the features of each sentence that has one of the paper's, and which of them are special tokens."""
    texts = [feature_text(sentence) for sentence in bank_of(asking).test]
    texts = [text for text in texts if any(mark[0] in FEATURES for mark in text.marks)][:MOST]

    def ask(text: FeatureText) -> FeatureScores:
        return asking.client.score_features(text, model=model, timeout=asking.timeout)

    found = asking.kept(f"features {model.name}", lambda: each(asking, texts, ask))
    marked = {mark[0] for text in texts for mark in text.marks}
    return found, [name for name in found[0].features if name not in marked] if found else []


def change_of_last_layers(
    asking: Asking, *, layers: Annotated[int, Between(1)], by: Literal["cosine", "divergence"] = "cosine"
) -> Measured:
    """Measures the share that the last layers have in the change of maps by fine-tuning: the mean change of one of them,
    divided by the sum of this and of the mean of a layer below; one half if all layers change alike.

    The change is 1 - cosine of the maps, or the Jensen-Shannon divergence of their rows, nats. A copy trained longer changes
    more everywhere, which leaves the share as it is. Texts are those of the copy's task in --data, else plain sentences. Raises
    NotAsked for a copy that attends as the model does.
    """
    tuned = asking.fine_tuned
    if tuned is None:
        raise NotAsked(NO_COPY)
    if asking.model.layers <= layers:
        raise NotAsked(f"the model has {asking.model.layers} layers: none is below the last {layers}")
    texts, data = _task_texts(asking, tuned)
    found = asking.kept(
        "change of maps",
        lambda: each(
            asking,
            texts,
            lambda text: asking.client.compare_attention(
                [text], tuned, model=asking.model, truncate=True, timeout=asking.timeout
            ),
        ),
    )
    heads = np.array([1 - one.cosine.mean() if by == "cosine" else one.divergence.mean() for one in found])
    change, means = heads.mean(2), heads.mean(0)
    last, below = change[:, -layers:].mean(1), change[:, :-layers].mean(1)
    if (last + below).max() < LEAST_CHANGE:
        raise NotAsked("the fine-tuned copy attends as the model does")
    layer, head = np.unravel_index(int(means.argmax()), means.shape)
    by_layer = ", ".join(f"{value:.3f}" for value in means.mean(1))
    return paired(
        last / (last + below),
        0.5,
        bounds=(-0.5, 0.5),
        data=data,
        picture=grid(means.tolist(), "1 - cosine of maps" if by == "cosine" else "divergence of maps, nats"),
        notes=[f"by layer: {by_layer}; the head that changes most, on these texts: {layer}:{head}"],
    )


def _task_texts(asking: Asking, tuned: Model) -> tuple[list[TextOrPair], str]:
    with suppress(NotAsked):
        labelled, model = task_of(asking)
        if model.name == tuned.name:
            texts = labelled.inputs[:MOST]
            return texts, f"{len(texts)} texts of {labelled.path.name} (--data)"
    plain = sentences(asking)
    return [*plain], source(asking, len(plain))


def _heads(score: FeatureScore, first_row: bool) -> PerHead:
    """Returns [layers, heads], or of the last layer, [1, heads], the attention to a feature."""
    return score.from_first_special.mean()[-1:] if first_row else score.attention.mean()


def _best(name: str, heads: PerHead) -> str:
    layer, head = np.unravel_index(int(heads.argmax()), heads.shape)
    place = f"{layer}:{head}" if len(heads) > 1 else str(head)
    return f"{name} {place} ({heads.max():.3f})"
