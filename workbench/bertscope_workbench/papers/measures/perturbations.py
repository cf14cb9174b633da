"""Measures how much of a model's predictions is left when the sentence around a masked verb is perturbed."""

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, paired
from bertscope_workbench.papers.items.perturbations import Kind, Perturbed, clause, perturb, pools
from bertscope_workbench.papers.items.treebank import bank_of
from bertscope_workbench.papers.measures.fillings import filled
from bertscope_workbench.papers.pictures_data import bars

SENTENCES = 150
"""The most sentences that are asked."""


def prediction_kept(asking: Asking, *, kind: Kind) -> Measured:
    """Returns the share of masked verbs whose likeliest word stays the same when the sentence is perturbed, beside the share
    when the words concerned are replaced by others and the sentence stays whole.

    `kind` is "shuffle", "local-shuffle" (among three words), "drop-subject", "drop-object" or "truncate" (to the half that is
    nearest). Sentences are those of the treebank whose main verb has a subject and an object. Raises NotAsked without one.
    """
    bank = bank_of(asking)
    clauses = [found for found in map(clause, bank.sentences) if found is not None]
    words = pools(clauses)
    made = [perturb(each, kind, words, number) for number, each in enumerate(clauses)]
    items = [each for each in made if each is not None][:SENTENCES]
    if not items:
        raise NotAsked("the treebank has no sentence whose main verb has a subject and an object")
    likeliest = _likeliest(asking, items)
    asked = [each for each in items if all(text in likeliest for text in (each.whole, each.perturbed, each.other_words))]
    kept = [float(likeliest[each.whole] == likeliest[each.perturbed]) for each in asked]
    control = [float(likeliest[each.whole] == likeliest[each.other_words]) for each in asked]
    rows = {"perturbed": kept, "with other words": control}
    return paired(
        kept,
        control,
        bounds=(-1.0, 1.0),
        data=f"{len(asked)} {bank.source}",
        picture=bars("share of predictions kept", {name: sum(own) / len(own) for name, own in rows.items() if own}),
    )


def _likeliest(asking: Asking, items: list[Perturbed]) -> dict[str, str]:
    """Returns the likeliest piece at the mask of each text; each is asked once."""
    known: dict[str, str] = asking.kept("cloze: likeliest pieces", dict)
    texts = [text for each in items for text in (each.whole, each.perturbed, each.other_words)]
    for answer in filled(asking, [text for text in dict.fromkeys(texts) if text not in known], top_k=1):
        known[answer.text] = answer.masks[0].predictions[0].token
    return known
