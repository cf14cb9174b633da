"""Measures how far attention tells which words made a prediction: its rank correlation with exact Shapley values, sentence by
sentence."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from bertscope import Answer, AttributionMethod, Quantity, WordAttribution

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items import table
from bertscope_workbench.papers.measures.sentences import Values, chosen_names, crossed, each
from bertscope_workbench.papers.pictures_data import bars

QUANTITIES: dict[str, Quantity] = {"attention": "weights", "norms": "layer_norms", "rollout": "rollout"}
METHODS: dict[str, AttributionMethod] = {"gradient": "gradient", "occlusion": "occlusion"}
RANKED = (*QUANTITIES, "best attention", *METHODS)
MASK = "[MASK]"
MOST_UNITS = 10
"""Shapley values of more words are not exact."""


def correlation(asking: Asking, *, of: Annotated[str, RANKED], beside: Annotated[str, ("", *RANKED)] = "") -> Measured:
    """Measures Spearman's correlation of absolute Shapley values of words at a mask with the numbers of `of`, mean over
    sentences, beside that of `beside`.

    "attention" is the mask's row in the last layer, mean over heads; "norms" the same with weighted vectors (Kobayashi et al.
    2020), "rollout" that of all layers (Abnar and Zuidema 2020); of "gradient" and "occlusion" absolute values count. "best
    attention" is the row of the head, or the mean of a layer's heads, with the highest correlation on other sentences.
    """
    own = _correlations(asking, of)
    other = _correlations(asking, beside) if beside else None
    notes = [_best(asking)[1]] if "best attention" in (of, beside) else []
    rows = {name: float(np.nanmean(values)) for name, values in ((of, own), (beside, other)) if values is not None}
    return paired(
        own,
        other,
        bounds=(-2, 2) if beside else (-1, 1),
        data=f"{len(own)} short sentences of our own with a mask (licence of the project)",
        picture=bars("rank correlation with Shapley values", rows),
        notes=notes,
    )


def spearman(first: Values, second: Values) -> float:
    """Returns Spearman's rank correlation; NaN where all numbers of one are equal. Equal numbers share their mean rank."""
    ranks = [np.array([(values < value).sum() + (values == value).sum() / 2 for value in values]) for values in (first, second)]
    if min(map(np.ptp, ranks)) == 0:
        return float("nan")
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _correlations(asking: Asking, name: str) -> Values:
    exact = asking.kept("shapley", lambda: _attributed(asking, "shapley"))

    def make() -> Values:
        if name == "best attention":
            return _best(asking)[0]
        if name in METHODS:
            values = [found.values for found in _attributed(asking, METHODS[name])]
        else:
            last = [asking.model.layers - 1]
            values = each(asking, exact, lambda found: _rows(asking, found, QUANTITIES[name], last)[0].mean(0))
        return np.array([spearman(np.abs(own.values), np.abs(other)) for own, other in zip(exact, values, strict=True)])

    return asking.kept(f"correlations {name}", make)


def _best(asking: Asking) -> tuple[Values, str]:
    """Returns each sentence's correlation with the row of the head, or the mean row of the layer, that is best on other
    sentences, and which that is, in words."""
    exact = asking.kept("shapley", lambda: _attributed(asking, "shapley"))

    def ask(found: WordAttribution) -> list[float]:
        rows = _rows(asking, found, "weights", None)
        candidates = np.concatenate([rows.reshape(-1, rows.shape[-1]), rows.mean(1)])
        return [spearman(np.abs(found.values), row) for row in candidates]

    def make() -> tuple[Values, str]:
        scored, chosen = crossed(np.array(each(asking, exact, ask)))
        layers, heads = range(asking.model.layers), range(asking.model.heads)
        names = [f"{layer}:{head}" for layer in layers for head in heads] + [f"mean of layer {layer}" for layer in layers]
        return scored, chosen_names([names[one] for one in chosen])

    return asking.kept("best attention", make)


def _attributed(asking: Asking, method: AttributionMethod) -> list[WordAttribution]:
    """Returns the attribution of each sentence's answer at its mask; of those whose answer is an entry of the vocabulary."""
    items = asking.kept("short sentences", lambda: _sentences(asking))

    def ask(item: tuple[str, str]) -> WordAttribution:
        (found,) = asking.client.attribute_words(
            item[0], Answer(item[1]), model=asking.model, method=method, exact_units=MOST_UNITS, timeout=asking.timeout
        )
        return found

    return each(asking, items, ask)


def _sentences(asking: Asking) -> list[tuple[str, str]]:
    """Returns sentences and answers. Raises NotAsked if the vocabulary has none of the answers."""
    rows = table("short.tsv")[: asking.data.limit]
    texts = [row["text"].replace(MASK, asking.model.mask_token or MASK) for row in rows]
    answers = asking.client.fill_mask_stream(
        texts, candidates_per_text=[[row["answer"]] for row in rows], model=asking.model, timeout=asking.timeout
    )
    found = [
        (text, row["answer"])
        for text, row, answer in zip(texts, rows, answers, strict=True)
        if len(answer.masks[0].predictions[0].pieces) == 1
    ]
    if not found:
        raise NotAsked("no answer of the sentences is an entry of the vocabulary")
    return found


def _rows(asking: Asking, found: WordAttribution, quantity: Quantity, layers: Sequence[int] | None) -> Values:
    """Returns [layers, heads, units]: the numbers of the mask's row for each unit of an attribution; None for all layers."""
    (maps,) = asking.client.extract_attention(
        [found.text],
        model=asking.model,
        layers=layers,
        words=True,
        quantity=quantity,
        timeout=asking.timeout,
    )
    text = found.text if isinstance(found.text, str) else found.text[0]
    start = text.index(asking.model.mask_token or MASK)
    places = {token.start: place for place, token in enumerate(maps.tokens) if not token.special}
    units = [places[unit.start] for unit in found.units]
    return np.asarray(maps.attention[:, :, places[start], units], np.float64)
