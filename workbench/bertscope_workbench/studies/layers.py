"""Asks what the layers of a hosted model hold, on a treebank: geometry, the prediction at every layer, probes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from bertscope import (
    BertscopeError,
    Client,
    GeometryDescription,
    InvalidArgument,
    LensText,
    Model,
    ProbeProgress,
    ProbeResult,
    ProbeText,
)
from bertscope.questions.representations.geometry import frequent_words
from bertscope.values.labelled_texts import Label

from bertscope_workbench.plots.geometry import plot_geometry
from bertscope_workbench.plots.probes import plot_probe
from bertscope_workbench.plots.representation_comparison import plot_representations
from bertscope_workbench.readers.treebanks import ConlluLabel
from bertscope_workbench.studies.data import StudyData, Treebank
from bertscope_workbench.studies.figures import curves
from bertscope_workbench.studies.inquiry import Inquiry, OnStage, Rejected, answered_study, model_facts, percent
from bertscope_workbench.studies.report import LeftOut, Section, Study, Table

PROBED: tuple[ConlluLabel, ...] = ("upos", "deprel", "head", "depth")
"""The labels that probes are trained on."""
WORDS = 100
"""The most frequent words, whose occurrences are compared."""
CONTENT = ("NOUN", "PROPN", "VERB", "ADJ", "ADV")
"""Parts of speech of the words that are masked."""
TOP = 10
DRAWN = 3
"""Classes that the text names of those a probe confuses."""
WORD = re.compile(r"\w+")


def study_layers(
    client: Client,
    treebank: Treebank,
    *,
    model: str | Model | None = None,
    dark: bool = False,
    timeout: float | None = None,
    on_stage: OnStage | None = None,
) -> Study:
    """Asks every question that the model can answer; the others are in the study as left out.

    `on_stage` hears of progress. Raises NotFound for a model that is not hosted, InvalidArgument for a treebank that can't be
    read.
    """
    hosted = client.get_model(model)
    inquiry = Inquiry(client, StudyData(treebank.limit), hosted, None, dark, timeout, on_stage)
    texts = treebank.sentences()
    asks: dict[str, Callable[[Inquiry, Section], None]] = {
        "geometry": partial(geometry, treebank=treebank, texts=texts),
        "alike": partial(alike, treebank=treebank, texts=texts),
        "lens": partial(lens, texts=texts),
        **{label: partial(probes, treebank=treebank, label=label) for label in PROBED},
    }
    facts = [
        ("model", model_facts(hosted)),
        ("sentences", f"{len(texts)}; {treebank.division}"),
        ("layers", "0 is the embeddings, k the output of layer k - 1"),
    ]
    return answered_study(inquiry, "layers", asks, facts)


def geometry(inquiry: Inquiry, section: Section, *, treebank: Treebank, texts: Sequence[ProbeText]) -> None:
    """Fills in where states lie."""
    section.methods.append("describe_geometry")
    section.commands.append(inquiry.command("geometry", "--frequent", str(WORDS), "--texts", path=treebank.files[0]))
    given, ask = [text.text for text in texts], inquiry.client.describe_geometry
    found = inquiry.many(section, "geometry", ask, given, words=frequent_words(given, WORDS), second_moments=True)
    section.files.append(f"{found.texts} sentences, {found.vectors} words")
    section.parts.append(_geometry_table(found))
    inquiry.draw(section, plot_geometry(found, dark=inquiry.dark), "Cosines by layer, and the largest dimensions")
    cosines = found.anisotropy()
    most = int(np.argmax(cosines))
    section.found.append(
        f"Words of two sentences have the mean cosine {cosines[0]:.3f} in the embeddings and {cosines[-1]:.3f} in the last "
        f"layer; most in layer {found.layers[most]}, {cosines[most]:.3f}."
    )


def _geometry_table(found: GeometryDescription) -> Table:
    largest = np.sort(found.dimension_shares(), axis=1)[:, -1]
    columns = {
        "two sentences": found.anisotropy(),
        "one sentence, less": found.similarity_in_texts(adjusted=True),
        "of a word, less": found.self_similarity(adjusted=True),
        "largest dimension": largest,
        "first direction": found.variance_shares(),
    }
    names = ["layer#", *(f"{name}#" for name in columns), "mean length#", "effective rank#"]
    rows = [
        [str(layer), *(f"{values[index]:.3f}" for values in columns.values()), f"{length:.2f}", f"{rank:.1f}"]
        for index, (layer, length, rank) in enumerate(zip(found.layers, found.norm(), found.effective_rank(), strict=True))
    ]
    return Table('mean cosines of two words by layer; "less" that of words of two sentences', names, rows)


def alike(inquiry: Inquiry, section: Section, *, treebank: Treebank, texts: Sequence[ProbeText]) -> None:
    """Fills in which layers are alike."""
    section.methods.append("compare_representations")
    section.commands.append(inquiry.command("cka", "--texts", path=treebank.files[0]))
    given, ask = [text.text for text in texts], inquiry.client.compare_representations
    found = inquiry.many(section, "layers that are alike", ask, given)
    section.files.append(f"{found.compared_texts} sentences of four words and more")
    values = found.cka()
    names = ["layer#", *(f"{layer}#" for layer in found.other_layers)]
    rows = [[str(layer), *(f"{value:.3f}" for value in row)] for layer, row in zip(found.layers, values, strict=True)]
    section.parts.append(Table("linear CKA of each two layers", names, rows))
    inquiry.draw(section, plot_representations(found, dark=inquiry.dark), "Linear CKA of each two layers")
    section.found.append(f"The embeddings and the last layer have CKA {values[0, -1]:.3f}.")


def lens(inquiry: Inquiry, section: Section, *, texts: Sequence[ProbeText]) -> None:
    """Fills in the prediction at every layer."""
    section.methods.append("read_layers")
    mask = inquiry.model.mask_token
    if not mask:
        raise LeftOut("the model has no mask token")
    masked = [found for found in (masked_word(text, mask) for text in texts) if found is not None]
    if not masked:
        raise LeftOut("no sentence has a noun, verb, adjective or adverb to mask")
    inquiry.show("the prediction at every layer", 0, len(masked))
    single = single_entries(inquiry, masked)
    several = len(masked) - len(single)
    if several:
        share = percent(several / len(masked))
        section.left_out.append(f"{several} of {len(masked)} words ({share}) that are no single entry of the vocabulary")
    if not single:
        raise LeftOut("every word to mask is of several pieces, and the head predicts one")
    masked, rejected = single, Rejected()
    left_out: set[int] = set()

    def leave_out(index: int, error: object) -> None:
        left_out.add(index)
        rejected(index, error)  # type: ignore[arg-type]

    answers = inquiry.client.read_layers(
        [text for text, _ in masked], model=inquiry.model, top_k=TOP, on_rejected=leave_out, timeout=inquiry.timeout
    )
    section.left_out += rejected.lines()
    words = [word for index, (_, word) in enumerate(masked) if index not in left_out]
    section.commands.append(inquiry.command("lens", masked[0][0], limited=False))
    section.files.append(f"{len(words)} sentences with a masked word")
    _lens_parts(inquiry, section, answers, words)


def single_entries(inquiry: Inquiry, masked: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Returns the sentences whose masked word is a single entry of the vocabulary, as one mask predicts; and those that can't
    be read, which the lens names."""
    unread: dict[int, bool] = {}

    def note(index: int, error: BertscopeError) -> None:
        fields = [each.field for each in error.field_violations] if isinstance(error, InvalidArgument) else []
        unread[index] = not any("candidates" in field for field in fields)

    answers = inquiry.client.fill_mask_stream(
        [text for text, _ in masked],
        candidates_per_text=[[word] for _, word in masked],
        model=inquiry.model,
        on_rejected=note,
        timeout=inquiry.timeout,
    )
    found = [len(answer.masks[0].predictions[0].pieces) == 1 for answer in answers]
    answered = iter(found)
    return [each for index, each in enumerate(masked) if (unread[index] if index in unread else next(answered))]


def masked_word(text: ProbeText, mask: str) -> tuple[str, str] | None:
    """Returns a sentence whose middle content word is masked, and the word; None without one."""
    if not isinstance(text.text, str):
        return None
    content: list[Label] = [label for label in text.labels if isinstance(label, Label) and label.label in CONTENT]
    content = [label for label in content if WORD.fullmatch(text.text[label.start : label.end])]
    if not content or mask in text.text:
        return None
    chosen = content[len(content) // 2]
    return text.text[: chosen.start] + mask + text.text[chosen.end :], text.text[chosen.start : chosen.end]


def _lens_parts(inquiry: Inquiry, section: Section, answers: Iterable[LensText], words: Sequence[str]) -> None:
    first: list[list[bool]] = []
    among, divergences, entropies = [], [], []
    layers: tuple[int, ...] = ()
    for answer, word in zip(answers, words, strict=True):
        readings = answer.positions[0].layers
        layers = answer.layers
        names = [[entry.token.casefold() for entry in reading.top] for reading in readings]
        first.append([top[0] == word.casefold() for top in names])
        among.append([word.casefold() in top for top in names])
        divergences.append([reading.divergence for reading in readings])
        entropies.append([reading.entropy for reading in readings])
    order = np.argsort(layers)
    likeliest, ten, divergence, entropy = (np.mean(values, axis=0)[order] for values in (first, among, divergences, entropies))
    columns = ["layer#", "the word is the likeliest#", "among ten#", "KL to the last, nats#", "entropy, nats#"]
    numbers = [int(layers[index]) for index in order]
    rows = [
        [str(layer), percent(one), percent(some), f"{kl:.3f}", f"{spread:.3f}"]
        for layer, one, some, kl, spread in zip(numbers, likeliest, ten, divergence, entropy, strict=True)
    ]
    section.parts.append(Table("the masked word, by layer", columns, rows))
    lines = {"likeliest": 100 * likeliest, f"among {TOP}": 100 * ten}
    figure = curves(numbers, lines, "sentences, %", inquiry.theme)
    inquiry.draw(section, figure, "Share of sentences in which the masked word is predicted, by layer")
    half = next((layer for layer, some in zip(numbers, ten, strict=True) if some >= ten[-1] / 2), numbers[-1])
    section.found.append(
        f"The last layer has the word among ten in {percent(ten[-1])} of the sentences; half of that is in layer {half}."
    )


def probes(inquiry: Inquiry, section: Section, *, treebank: Treebank, label: ConlluLabel) -> None:
    """Fills in what a linear probe reads."""
    section.methods.append("train_probe")
    train, dev, test = treebank.parts(label)
    if not (train and dev and test):
        raise LeftOut("there are too few sentences to train, stop and test on: three are needed")
    if len(treebank.files) > 1:
        dev_file, test_file = map(str, treebank.files[1:])
        words = ["probe", "--label", label, "--dev", dev_file, "--test", test_file]
        section.commands.append(inquiry.command(*words, path=treebank.files[0]))

    def show(progress: ProbeProgress) -> None:
        stage = "states" if progress.stage == "states" else "training"
        inquiry.show(f"{section.question.title}: {stage}", progress.done, progress.total)

    found = inquiry.client.train_probe(
        train, dev=dev, test=test, model=inquiry.model, truncate=True, on_progress=show, timeout=inquiry.timeout
    )
    section.files.append(f"{found.part.spans} tested words, {len(found.labels)} classes; {found.train.spans} to train on")
    section.parts.append(_probe_table(found))
    inquiry.draw(section, plot_probe(found, dark=inquiry.dark), "Probes by layer, and what the best one confuses")
    best = found.layer(found.best_layer)
    confused = ", ".join(f"{gold} for {answer}" for gold, answer, _ in found.confusions()[:DRAWN])
    section.found.append(
        f"Best in layer {found.best_layer}: {percent(best.accuracy)}, the control task {percent(best.control_accuracy)}, "
        f"always {found.majority_label} {percent(found.part.majority)}, the embeddings {percent(found.layers[0].accuracy)}."
        + (f" Most confused: {confused}." if confused else "")
    )


def _probe_table(found: ProbeResult) -> Table:
    names = ["layer#", "accuracy#", "95 %#", "control#", "selectivity#", "loss, nats#"]
    rows = [
        [
            *(str(one.layer), percent(one.accuracy), f"{100 * one.interval[0]:.1f} to {100 * one.interval[1]:.1f}"),
            *(percent(one.control_accuracy), percent(one.selectivity), f"{one.loss:.3f}"),
        ]
        for one in found.layers
    ]
    return Table("probes by layer", names, rows)
