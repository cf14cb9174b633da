"""Measures attention from a word to the one that it belongs to, beside another one that it could be taken for: agreement and
reflexives (Lin et al. 2019, section 4), coreference (Clark et al. 2019, section 4.3)."""

import numpy as np
from bertscope import AttentionMaps, Model

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.pointing import Kind, Pointed, pointed
from bertscope_workbench.papers.measures.sentences import Values, crossed, head_names
from bertscope_workbench.papers.pictures_data import grid


def attention_to_target(asking: Asking, *, kind: Kind) -> Measured:
    """Measures the share that the right word gets of the attention to both by the best head, chosen on other sentences,
    beside that of uniform attention, one half. In a mean, heads that look at the other word would cancel it."""
    items, weights = _asked(asking, kind)
    return _of_best_head(items, weights, weights[:, 0] / weights.sum(1), "share of the right word in the attention to both")


def best_head(asking: Asking, *, kind: Kind) -> Measured:
    """Measures how often the best head, chosen on other sentences, gives more weight to the right word than to the other."""
    items, weights = _asked(asking, kind)
    right = (weights[:, 0] > weights[:, 1]).astype(np.float64)
    return _of_best_head(items, weights, right, "share of sentences with more weight to the right word")


def _of_best_head(items: list[Pointed], weights: Values, values: Values, shown: str) -> Measured:
    """Returns a number of the head with the largest one on other sentences, beside one half. `values` are [sentences, layers,
    heads].

    The nearer word is right as often as not, so that any fixed distance has one half.
    """
    groups = [*dict.fromkeys(item.group for item in items)]
    rows = [[item.group == group for item in items] for group in groups]
    scored, chosen = crossed(np.array([values[own].mean(0).ravel() for own in rows]))
    attention = [weights[own].mean(0).reshape(2, -1)[:, head] for own, head in zip(rows, chosen, strict=True)]
    right, other = 100 * np.mean(attention, axis=0)
    return paired(
        scored,
        0.5,
        bounds=(-0.5, 0.5),
        data=_data(items),
        picture=grid(values.mean(0).tolist(), shown),
        notes=[
            head_names(chosen, weights.shape[3]),
            f"of its attention it gives {right:.1f} % to the right word and {other:.1f} % to the other",
        ],
    )


def right_form(asking: Asking, *, kind: Kind, smaller: bool = False) -> Measured:
    """Measures how often the form that belongs to the right word is likelier at a mask than the other one, beside one half;
    with `smaller`, to the smaller of two models."""
    items = pointed(kind)[: asking.data.limit]
    return paired(
        _right(asking, _by_size(asking)[0] if smaller else asking.model, items),
        0.5,
        groups=[item.group for item in items],
        bounds=(-0.5, 0.5),
        data=_data(items),
    )


def larger_beside_smaller(asking: Asking, *, kind: Kind) -> Measured:
    """Measures how often the right form is likelier to the larger of two models, beside the smaller one (Goldberg 2019)."""
    small, large = _by_size(asking)
    items = pointed(kind)[: asking.data.limit]
    return paired(
        _right(asking, large, items),
        _right(asking, small, items),
        groups=[item.group for item in items],
        bounds=(-1, 1),
        data=_data(items),
        notes=[f"{large.parameters:,} parameters beside {small.parameters:,}"],
    )


def _by_size(asking: Asking) -> tuple[Model, Model]:
    """Returns the smaller and the larger of two models. Raises NotAsked without a second one of another size."""
    if asking.against is None:
        raise NotAsked("no second model is named: --against MODEL")
    if asking.against.parameters == asking.model.parameters:
        raise NotAsked("the second model of --against is as large as the first")
    small, large = sorted((asking.model, asking.against), key=lambda model: model.parameters)
    return small, large


def _asked(asking: Asking, kind: Kind) -> tuple[list[Pointed], Values]:
    """Returns the sentences, and [sentences, 2, layers, heads]: the weights from the source to the right word and the other."""
    items = pointed(kind)[: asking.data.limit]

    def make() -> Values:
        found = []
        texts = [item.text for item in items]
        maps = asking.client.extract_attention(texts, model=asking.model, words=True, timeout=asking.timeout)
        for item, each in zip(items, maps, strict=True):
            source, target, other = (_place(each, item.start(number)) for number in (item.source, item.target, item.other))
            found.append(each.attention[:, :, source, [target, other]].transpose(2, 0, 1))
            asking.show(len(found), len(items))
        return np.array(found, np.float64)

    return items, asking.kept(f"pointing {kind}", make)


def _place(maps: AttentionMaps, start: int) -> int:
    """Returns the place of the word that covers a code point."""
    for place, token in enumerate(maps.tokens):
        if not token.special and token.start <= start < token.end:
            return place
    raise NotAsked("the tokenizer leaves a word of the sentences out")


def _right(asking: Asking, model: Model, items: list[Pointed]) -> list[float]:
    """Returns 1 for each sentence whose right form is likelier than the wrong one, else 0."""
    if "cloze" not in model.capabilities:
        raise NotAsked("a model has no masked-LM head")

    def make() -> list[float]:
        answers = asking.client.fill_mask_stream(
            (item.masked(model.mask_token or "") for item in items),
            candidates_per_text=([item.words[item.source], item.wrong] for item in items),
            model=model,
            timeout=asking.timeout,
        )
        found = []
        for item, answer in zip(items, answers, strict=True):
            scores = {each.token: each.log_probability for each in answer.masks[0].predictions}
            found.append(float(scores[item.words[item.source]] > scores[item.wrong]))
        return found

    return asking.kept(f"right {model.name} {items[0].text} {len(items)}", make)


def _data(items: list[Pointed]) -> str:
    groups = len({item.group for item in items})
    return f"{len(items)} sentences that the primer generates, of {groups} pairs of people (licence of the project)"
