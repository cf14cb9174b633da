"""Holds the questions of Kovaleva et al. 2019, with their definitions and what the paper found."""

from __future__ import annotations

from bertscope_workbench.studies.report import Question

PATTERNS = Question(
    "4.1",
    "Patterns of self-attention",
    "Into which classes do the maps of heads fall: vertical, diagonal, both, block, heterogeneous?",
    "Each map of each text is put into a class by fixed thresholds on its scores. The classes are those of "
    "Kovaleva et al. 2019; the classifier is bertscope's own, because theirs (a network trained on 400 maps) was "
    "not released. Block needs pairs of texts.",
    "Most heads of bert-base-uncased, fine-tuned on GLUE, attend to special tokens or neighbours; between 32 % "
    "(MRPC) and 61 % (QQP) are heterogeneous, the upper bound of those that may hold more.",
)

RELATIONS = Question(
    "4.2",
    "Heads of relations",
    "Are there heads that attend between words which a semantic or syntactic relation links?",
    "Per text the largest weight over the linked pairs of words, mean over texts (Kovaleva et al. 2019, section "
    "4.2); by chance: the same of other words as far apart. The accuracy is Clark et al. 2019, section 4: the "
    "share of pairs whose linked word is the one most attended to, beside the best fixed distance. Forward is "
    "from a predicate or governor to the other word.",
    "On 473 sentences of FrameNet, two of 144 heads of bert-base-uncased average 0.201 and 0.209, above the 99th percentile.",
)

CHANGE = Question(
    "4.3",
    "Change by fine-tuning",
    "How much does fine-tuning change the maps of each head?",
    "Per head the cosine of the two flattened maps of a text, mean over texts (Kovaleva et al. 2019, section "
    "4.3); maps are cut to the text's own tokens, where the paper pads them. Beside it the Jensen-Shannon "
    "divergence of the rows, in nats.",
    "The last two layers of bert-base-uncased change most, for all tasks but QQP.",
)

FEATURES = Question(
    "4.4",
    "Attention to linguistic features",
    "Do heads attend to nouns, verbs, subjects, negations, or rather to special tokens?",
    "Per text and feature the largest column of the map among its tokens, summed over rows and divided by the "
    "number of tokens; mean over texts that have the feature (Kovaleva et al. 2019, section 4.4).",
    "Vertical stripes come predominantly, if not exclusively, from [CLS] (in early layers) and [SEP] (in late ones).",
)

TOKENS = Question(
    "4.5",
    "From token to token",
    "Which heads link a verb and its subject, and what does [CLS] attend to in the last layer?",
    "Verb and subject as in 4.2 (nsubj). Of [CLS], the row of the map in the last layer: the largest weight to a "
    "token with the feature, mean over texts that have it (Kovaleva et al. 2019, section 4.5).",
    "The heads that link verb and subject were those with diagonal maps; for most tasks [CLS] attends to [SEP] "
    "most in the last layer.",
)

DISABLING = Question(
    "4.6",
    "Disabling heads",
    "What happens to the task if a head, or a whole layer, attends to all tokens alike?",
    "Every weight of the head is set to 1/L, L the number of tokens; values and output projection are untouched "
    "(Kovaleva et al. 2019, section 4.6). Differences have intervals, 95 %, by a paired bootstrap over the texts, "
    "which the paper does not give; of many heads that do nothing, one in twenty seems to do something.",
    "Some heads harm: disabling one gains 0.1 % (STS-B) to 1.2 % (MRPC) of accuracy; the first layer, on RTE, 3.2 %.",
)
