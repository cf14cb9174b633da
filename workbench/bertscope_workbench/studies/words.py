"""Sections 4.2, 4.4 and 4.5 of Kovaleva et al. 2019: attention between linked words, and to words with a feature."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from bertscope import FeatureScores, RelationScores, RelationText
from bertscope.questions.attention.selection import DIRECTIONS
from bertscope.questions.attention.sums import PerHead
from bertscope.values.models import short_name

from bertscope_workbench.plots.attention_statistics import panel_grid
from bertscope_workbench.plots.relations import plot_features, plot_relations
from bertscope_workbench.studies.figures import rows_of_heads
from bertscope_workbench.studies.inquiry import Inquiry, head_name, percent
from bertscope_workbench.studies.report import LeftOut, Section, Table
from bertscope_workbench.studies.word_tables import SAME, accuracies, feature_table, largest_weights, place, ranked

ALL, PAPER = "all roles", "all roles, selected as in the paper"
MOST_WORDS, LEAST_DISTANCE = 12, 2
"""The paper's selection of sentences and pairs."""
LINKS = ("nsubj", "obj")
HOW = {
    "half": " in every second sentence, chosen on the others",
    "other": "",
    "same": ", chosen on these sentences, and fewer in others",
}
COMMON = 0.1
"""The share of texts that a feature must be in to be ranked in the summary."""


def relations(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.2: roles, then dependencies."""
    section.methods.append("score_relations")
    data = inquiry.data
    if data.propbank is None and data.treebank is None:
        raise LeftOut("the folder has neither a PropBank file nor a treebank (.conllu)")
    section.left_out.append("FrameNet, the paper's data, which bertscope does not read; roles and dependencies stand in for it")
    if data.propbank is None:
        section.left_out.append("semantic roles: the folder has no PropBank file (a .conllu with more than ten columns)")
    else:
        section.commands.append(inquiry.command("relations", "--propbank", path=data.propbank))
        roles(inquiry, section)
    if data.treebank is None:
        section.left_out.append("dependencies: the folder has no treebank")
        return
    section.commands.append(inquiry.command("relations", "--no-subtypes", path=data.treebank))
    found = inquiry.dependencies()
    section.files.append(f"{found.texts} sentences of {data.treebank}, with dependencies")
    section.left_out += unread(data.dependencies.problems)
    section.parts.append(largest_weights(found, f"dependencies: the largest weight between linked words{SAME}"))
    section.parts.append(accuracies(found, "dependencies: the head that finds the linked word most often"))
    inquiry.draw(section, plot_relations(found, dark=inquiry.dark), "The best head of each dependency")
    beating = sum(best.beats_offset for best in found.best_heads())
    section.found.append(
        f"For {beating} of {len(found.best_heads())} dependencies a head that was chosen on every second sentence is clearly "
        "better in the others than the best fixed distance."
    )


def roles(inquiry: Inquiry, section: Section) -> None:
    """Scores semantic roles: each role, all together, and those that the paper would select."""
    data, ask = inquiry.data, inquiry.client.score_relations
    found = inquiry.many(section, "4.2 roles", ask, with_all_roles(data.roles), what="sentences with roles")
    section.left_out += unread(data.roles.problems)
    section.files.append(f"{found.texts} sentences of {data.propbank}, with roles")
    section.parts.append(
        largest_weights(found, f"roles: the largest weight between a predicate and the head of its argument{SAME}")
    )
    chosen = PAPER if PAPER in found.relations and found[PAPER].pairs else ALL
    score = found[chosen]
    panels = {
        "forward": score.largest_weight("forward"),
        "backward": score.largest_weight("backward"),
        "forward, by chance": score.largest_weight_by_chance("forward"),
        "backward, by chance": score.largest_weight_by_chance("backward"),
    }
    heat_maps(inquiry, section, panels, f"The largest weight between predicate and argument: {chosen}")
    direction = max(DIRECTIONS, key=lambda each: float(np.nanmax(score.largest_weight(each))))
    weights = score.largest_weight(direction)
    first = place(weights)
    section.found.append(
        f"Of {weights.size} heads, {head_name(*first)} has the largest mean weight between predicate and argument, "
        f"{weights[first]:.3f} ({direction}; {score.largest_weight_by_chance(direction)[first]:.3f} by chance; "
        f"99th percentile of all heads {np.nanpercentile(weights, 99):.3f}), over {chosen}; chosen on these sentences."
    )
    section.left_out.append(
        "the paper's limit of three tokens for an element: PropBank on Universal Dependencies marks the head of an argument"
    )


def with_all_roles(texts: Iterable[RelationText]) -> list[RelationText]:
    """Returns the texts with two more relations: all roles together, and those in short sentences and not close by."""
    found = []
    for text in texts:
        together = [(ALL, source, target) for _, source, target in text.pairs]
        if len(text.words or ()) <= MOST_WORDS:
            distant = [(source, target) for _, source, target in text.pairs if abs(source - target) >= LEAST_DISTANCE]
            together += [(PAPER, *pair) for pair in distant]
        found.append(RelationText(text.text, list(dict.fromkeys([*text.pairs, *together])), text.words))
    return found


def features(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.4: for the model and for its fine-tuned copy."""
    section.methods.append("score_features")
    found, rejected = inquiry.features(inquiry.model)
    section.commands.append(inquiry.command("relations", "--features", path=inquiry.data.treebank))
    section.files.append(f"{found.texts} sentences of {inquiry.data.treebank}")
    section.left_out += [*rejected.lines(), *unread(inquiry.data.features.problems)]
    other = inquiry.features(inquiry.fine_tuned)[0] if inquiry.fine_tuned else None
    section.parts.append(feature_table(found, other))
    for model in filter(None, (inquiry.model, inquiry.fine_tuned)):
        caption = f"Attention to features, {short_name(model)}; each has a scale of its own"
        inquiry.draw(section, plot_features(inquiry.features(model)[0], dark=inquiry.dark), caption)
    if other is None:
        section.left_out.append("the difference that fine-tuning makes: no fine-tuned copy is named (--fine-tuned MODEL)")
    common = {name: score.attention for name, score in found.features.items() if score.attention.texts >= COMMON * found.texts}
    means = ranked({name: sums.mean() for name, sums in common.items()})
    section.found.append(
        "Features that a tenth of the sentences have, by attention, mean over all heads: "
        + ", ".join(f"{name} {value:.3f}" for name, value in means)
        + "."
    )
    section.left_out.append(
        "the paper's list of negation words: negations are the words that the treebank marks as such (Polarity=Neg)"
    )


def tokens(inquiry: Inquiry, section: Section) -> None:
    """Fills in section 4.5: verbs and subjects, and the row of the first special token in the last layer."""
    section.methods += ["score_relations", "score_features"]
    linked = inquiry.dependencies()
    path = inquiry.data.treebank
    section.commands.append(inquiry.command("relations", "--no-subtypes", "--only", "nsubj", "--only", "obj", path=path))
    section.commands.append(inquiry.command("relations", "--features", path=path))
    section.files.append(f"{linked.texts} sentences of {path}")
    there = [name for name in LINKS if name in linked.relations and linked[name].pairs]
    if there:
        part = RelationScores(
            linked.layers, linked.heads, linked.texts, {name: linked[name] for name in there}, linked.provenance
        )
        section.parts.append(largest_weights(part, f"a verb with its subject and its object: the largest weight{SAME}"))
        section.parts.append(accuracies(part, "the same: how often a head finds the linked word"))
        panels = {f"{name}, {each}": linked[name].largest_weight(each) for name in there for each in DIRECTIONS}
        heat_maps(inquiry, section, panels, "The largest weight between a verb and its subject or object")
        for best in part.best_heads():
            offset = f"the fixed distance {best.offset:+d} finds {percent(best.offset_accuracy)}"
            section.found.append(
                f"{best.relation}: head {head_name(best.layer, best.head)} finds {percent(best.accuracy)} of {best.pairs} "
                f"pairs ({best.direction}){HOW[best.chosen_on]}; {offset}."
            )
    else:
        section.left_out.append("verb and subject: no sentence has nsubj")
    section.left_out.append("nouns and their pronouns: treebanks mark no coreference")
    model = inquiry.fine_tuned or inquiry.model
    found, rejected = inquiry.features(model)
    section.left_out += rejected.lines()
    first_special(inquiry, section, found, short_name(model))


def first_special(inquiry: Inquiry, section: Section, found: FeatureScores, model: str) -> None:
    """Adds what the first special token attends to in the last layer."""
    last = found.layers - 1
    scores = {name: score.from_first_special for name, score in found.features.items() if score.from_first_special.texts}
    rows = {name: sums.mean()[-1] for name, sums in scores.items()}
    order = [name for name, _ in ranked(rows)]
    caption = f"the first special token's attention in layer {last}, {model}{SAME}"
    table = [
        [
            name,
            str(scores[name].texts),
            f"{rows[name].mean():.3f}",
            head_name(last, int(rows[name].argmax())),
            f"{rows[name].max():.3f}",
        ]
        for name in order
    ]
    section.parts.append(
        Table(caption, ["feature", "texts#", "mean of heads#", "head that attends most#", "its weight#"], table)
    )
    inquiry.draw(section, rows_of_heads({name: rows[name] for name in order}, inquiry.theme), caption)
    if order:
        section.found.append(
            f"In layer {last} of {model}, the first special token attends most to {order[0]} ({rows[order[0]].mean():.3f})."
        )


def heat_maps(inquiry: Inquiry, section: Section, panels: dict[str, PerHead], caption: str) -> None:
    """Adds a picture with a heat map of heads for each name."""
    layers = len(next(iter(panels.values())))
    figure = panel_grid(panels, range(layers), inquiry.theme)
    figure.set_heading(f"{caption}\n{short_name(inquiry.model)}")
    inquiry.draw(section, figure, caption)


def unread(problems: Sequence[Exception]) -> list[str]:
    """Returns a line for sentences that can't be read."""
    return [f"{len(problems)} sentences that can't be read; the first: {problems[0]}"] if problems else []
