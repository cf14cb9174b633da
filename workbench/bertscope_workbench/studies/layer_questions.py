"""Holds the questions of the study of layers, with their definitions and what the papers found."""

from __future__ import annotations

from bertscope_workbench.readers.treebanks import ConlluLabel
from bertscope_workbench.studies.report import Question

GEOMETRY = Question(
    "1",
    "Where states lie",
    "How alike are the states of words of two sentences, of the words of one, of the occurrences of a word?",
    "Mean cosines of all pairs, by layer; those within sentences and of a word's occurrences less that of words of two "
    "sentences (after Ethayarajh 2019, sections 3.3 and 4.1, whose similarity within a sentence is that of a word with a mean "
    "that the word is part of). The share of a dimension is its part of the mean cosine (Timkey and van "
    "Schijndel 2021, section 3). A word is the mean of its pieces.",
    "In all layers of bert-base-cased words lie in a narrow cone, the narrower the higher the layer; a word's occurrences grow "
    "less alike (Ethayarajh 2019).",
)

ALIKE = Question(
    "2",
    "Layers that are alike",
    "Which layers hold alike states?",
    "Linear CKA of each two layers, by unbiased estimates within texts (Kornblith et al. 2019, section 3; Nguyen et al. 2021, "
    "section 2.2).",
    "Layers near each other are alike, and become less so with the distance (Kornblith et al. 2019, section 6).",
)

LENS = Question(
    "3",
    "The prediction at every layer",
    "From which layer on does the masked-LM head predict a masked word?",
    "One content word of each sentence is masked; words of several pieces, which no mask predicts, are left out. The head "
    "reads the state of the mask at every layer (the logit lens, nostalgebraist 2020): the share of sentences in which the "
    "word, letter case ignored, is the likeliest entry, and among the ten likeliest; KL(last || layer) and entropy in nats.",
    "The logit lens is often brittle: early layers may predict nothing sensible (Belrose et al. 2023, abstract).",
)

LABELS: tuple[tuple[ConlluLabel, str, str, str, str], ...] = (
    (
        "upos",
        "4.1",
        "Parts of speech",
        "In which layers can a word's part of speech be read?",
        "Parts of speech come earlier than parts of a sentence, roles and coreference (Tenney et al. 2019).",
    ),
    (
        "deprel",
        "4.2",
        "Relations",
        "In which layers can the relation of a word to its head be read?",
        "Most syntax is in the middle layers (Liu et al. 2019; Hewitt and Manning 2019; both by Rogers et al. 2020, 4.2).",
    ),
    (
        "head",
        "4.3",
        "Places of heads",
        "In which layers can it be read how far away a word's head is?",
        "The papers probe pairs of words instead.",
    ),
    (
        "depth",
        "4.4",
        "Depths",
        "In which layers can the depth of a word in its tree be read?",
        "Depth is read best from the middle layers (Hewitt and Manning 2019; theirs is a structural probe).",
    ),
)
PROBES = (
    "A linear probe on each layer's state of a word, beside one on a control task: each word type has a class of its own, "
    "drawn at random (Hewitt and Liang 2019, section 2). Selectivity is the difference of both. Intervals are a bootstrap over "
    "sentences, 95 %."
)
PROBED: tuple[tuple[ConlluLabel, Question], ...] = tuple(
    (label, Question(number, title, asked, PROBES, paper)) for label, number, title, asked, paper in LABELS
)
