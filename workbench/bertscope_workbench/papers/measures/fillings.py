"""Fills the masks of a test's texts."""

from collections.abc import Iterable, Iterator, Sequence

from bertscope import FilledText

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.items.contrasts import Asked


def filled(
    asking: Asking, texts: Sequence[str], *, words: Iterable[Sequence[str]] | None = None, top_k: int | None = None
) -> Iterator[FilledText]:
    """Yields the answer to each text, in order, but for those that the server rejects: the `top_k` likeliest pieces at its
    masks, or each text's own `words`."""
    answers = asking.client.fill_mask_stream(
        texts,
        candidates_per_text=words,
        top_k=top_k,
        model=asking.model,
        on_rejected=asking.rejected,
        timeout=asking.timeout,
    )
    for done, answer in enumerate(answers, start=1):
        asking.show(done, len(texts))
        yield answer


def log_probabilities(asking: Asking, asked: Iterable[Asked], *, single: bool = False) -> dict[Asked, float]:
    """Returns the natural logarithm of the probability of each word at the mask of its text, among the whole vocabulary.

    Words of several pieces are scored with as many masks, or left out with `single`; so are texts that the server rejects.
    Each is asked once.
    """
    known: dict[Asked, float] = asking.kept("cloze: words at masks", dict)
    whole: set[Asked] = asking.kept("cloze: words of one piece", set)
    words: dict[str, dict[str, None]] = {}
    wanted = list(dict.fromkeys(asked))
    for text, word in wanted:
        if (text, word) not in known:
            words.setdefault(text, {})[word] = None
    for answer in filled(asking, list(words), words=map(list, words.values())) if words else ():
        for prediction in answer.masks[0].predictions:
            known[answer.text, prediction.token] = prediction.log_probability
            if prediction.rank is not None:
                whole.add((answer.text, prediction.token))
    return {each: known[each] for each in wanted if each in known and (not single or each in whole)}
