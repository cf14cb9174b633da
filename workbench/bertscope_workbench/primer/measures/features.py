"""Measures attention to kinds of words, and how fine-tuning changes maps (Kovaleva et al. 2019, sections 4.3 to 4.5)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from bertscope import FeatureText

from bertscope_workbench.primer.asking import Asking
from bertscope_workbench.primer.data.treebank import bank_of
from bertscope_workbench.primer.estimates import Measured, NotAsked, paired
from bertscope_workbench.primer.measures.sentences import each, sentences, source
from bertscope_workbench.primer.pictures_data import bars, curves
from bertscope_workbench.readers.treebanks import feature_text

MOST = 100
"""The most sentences that are asked."""
LEAST_CHANGE = 1e-5
"""Smaller changes of maps, 1 - cosine, may be rounding."""
FEATURES = ("NOUN", "VERB", "PRON", "subject", "object", "negation")
"""Features of words that the paper asks about."""


def special_beside_features(asking: Asking, *, first_row: bool = False) -> Measured:
    """Measures the attention to the special token that gets most in a sentence, mean over heads, beside the feature of words
    that gets most in it: nouns, verbs, pronouns, subjects, objects, negations.

    With `first_row`, only that of the first special token in the last layer counts, and the special token is the last one.
    """
    texts = [_marked(feature_text(sentence)) for sentence in bank_of(asking).test]
    texts = [text for text in texts if text.marks][:MOST]

    def ask(text: FeatureText) -> dict[str, tuple[float, float]]:
        found = asking.client.score_features(text, model=asking.model, timeout=asking.timeout)
        return {
            name: (float(score.attention.mean().mean()), float(score.from_first_special.mean()[-1].mean()))
            for name, score in found.features.items()
        }

    rows = asking.kept("features", lambda: each(asking, texts, ask))
    special = {name for row in rows for name in row if name not in FEATURES}
    if not special:
        raise NotAsked("the tokenizer adds no special tokens")
    place = 1 if first_row else 0

    def most(row: Mapping[str, tuple[float, float]], names: set[str]) -> float:
        return max(row[name][place] for name in names)

    ends = {[*rows[0]][-1]} if first_row else special  # Special tokens come last, in the order of the text.
    named = {name: [row[name][place] for row in rows if name in row] for name in (*sorted(special), *FEATURES)}
    means = {name: float(np.mean(values)) for name, values in named.items() if values}
    return paired(
        [most(row, ends) for row in rows],
        [most(row, {*row} - special) for row in rows],
        bounds=(-1, 1),
        data=f"{len(rows)} {bank_of(asking).source}",
        picture=bars("attention to it, mean over heads", means),
    )


def change_of_last_layers(asking: Asking, *, layers: int) -> Measured:
    """Measures the share that the last layers have in the change of maps by fine-tuning: the mean 1 - cosine of one of them,
    divided by the sum of this and of the mean of a layer below; one half if all layers change alike.

    A copy trained longer changes more everywhere, which leaves the share as it is. Raises NotAsked for a copy that attends as
    the model does.
    """
    if asking.fine_tuned is None:
        raise NotAsked("no fine-tuned copy is named: --fine-tuned MODEL")
    if asking.model.layers <= layers:
        raise NotAsked(f"the model has {asking.model.layers} layers: none is below the last {layers}")
    texts, tuned = sentences(asking), asking.fine_tuned
    found = each(
        asking,
        texts,
        lambda text: asking.client.compare_attention(
            [text], tuned, model=asking.model, truncate=True, timeout=asking.timeout
        ).cosine.mean(),
    )
    change = 1 - np.array(found).mean(2)
    picture = curves("layer", [*range(change.shape[1])], "1 - cosine", {"change": change.mean(0).tolist()})
    last, below = change[:, -layers:].mean(1), change[:, :-layers].mean(1)
    if (last + below).max() < LEAST_CHANGE:
        raise NotAsked("the fine-tuned copy attends as the model does")
    return paired(last / (last + below), 0.5, bounds=(-0.5, 0.5), data=source(asking, len(texts)), picture=picture)


def _marked(text: FeatureText) -> FeatureText:
    """Returns a text with the features that are asked about alone."""
    return FeatureText(text.text, [mark for mark in text.marks if mark[0] in FEATURES])
