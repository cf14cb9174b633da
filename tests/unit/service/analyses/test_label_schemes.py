"""Schemes of labels are recognised by their names, and mentions read as each scheme defines them."""

import numpy as np
import pytest
from bertscope_service.analyses.label_schemes import Mention, Scheme, mentions_of, scheme_of
from seqeval.metrics.sequence_labeling import get_entities
from seqeval.scheme import BILOU, IOBES, Entities


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("O B-PER I-PER", Scheme.IOB),
        ("I-PER I-LOC O", Scheme.IOB),
        ("B I O", Scheme.IOB),
        ("O B-NP I-NP E-NP S-NP", Scheme.IOBES),
        ("O B-NP I-NP S-NP", Scheme.IOBES),
        ("O B-NP I-NP L-NP U-NP", Scheme.BILOU),
        ("O B-NP L-NP S-NP", Scheme.NONE),
        ("NOUN VERB X", Scheme.NONE),
        ("LABEL_0 LABEL_1", Scheme.NONE),
        ("O B-PER PERSON", Scheme.NONE),
        ("O S-NP E-NP", Scheme.NONE),
        ("O", Scheme.NONE),
        ("B-PER-LOC I-PER-LOC", Scheme.IOB),
    ],
)
def test_a_scheme_is_recognised(labels: str, scheme: Scheme) -> None:
    assert scheme_of(labels.split()) is scheme


@pytest.mark.parametrize(
    ("labels", "mentions"),
    [
        # IOB2: each mention begins with B.
        ("B-PER I-PER O B-LOC B-LOC I-LOC", [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 6)]),
        # IOB1: B only parts two mentions of one type.
        ("I-PER I-PER O I-LOC B-LOC I-LOC I-PER", [("PER", 0, 2), ("LOC", 3, 4), ("LOC", 4, 6), ("PER", 6, 7)]),
        # IOBES.
        ("B-PER I-PER E-PER S-LOC S-LOC B-LOC E-LOC", [("PER", 0, 3), ("LOC", 3, 4), ("LOC", 4, 5), ("LOC", 5, 7)]),
        ("E-PER I-PER E-PER I-LOC", [("PER", 0, 1), ("PER", 1, 3), ("LOC", 3, 4)]),
        ("B-PER S-PER E-PER", [("PER", 0, 1), ("PER", 1, 2), ("PER", 2, 3)]),
        # BILOU.
        ("B-PER I-PER L-PER U-LOC O B-LOC L-LOC", [("PER", 0, 3), ("LOC", 3, 4), ("LOC", 5, 7)]),
        # Prefixes alone; types with a dash; another type; a word without a label.
        ("B I O I", [("", 0, 2), ("", 3, 4)]),
        ("B-A-B I-A-B I-A", [("A-B", 0, 2), ("A", 2, 3)]),
        ("B-PER - I-PER", [("PER", 0, 1), ("PER", 2, 3)]),
        ("O O", []),
        ("", []),
    ],
)
def test_mentions(labels: str, mentions: list[tuple[str, int, int]]) -> None:
    assert mentions_of([None if label == "-" else label for label in labels.split()]) == [Mention(*one) for one in mentions]


def drawn(prefixes: str, count: int = 400) -> list[list[str]]:
    """Any sequences of labels, most of them not as the scheme has it."""
    generator = np.random.default_rng(0)
    labels = ["O", *(f"{prefix}-{kind}" for prefix in prefixes for kind in ("PER", "LOC"))]
    return [[labels[at] for at in generator.integers(len(labels), size=9)] for _ in range(count)]


@pytest.mark.parametrize("prefixes", ["I", "BI", "BIES"])
def test_mentions_of_any_labels_are_those_of_seqeval(prefixes: str) -> None:
    for labels in drawn(prefixes):
        expected = [(kind, start, last + 1) for kind, start, last in get_entities(labels)]
        assert mentions_of(labels) == [Mention(*one) for one in expected]


@pytest.mark.parametrize(("scheme", "last", "alone"), [(IOBES, "E", "S"), (BILOU, "L", "U")])
def test_mentions_of_a_well_formed_sequence_are_those_of_seqeval_strictly(scheme: type, last: str, alone: str) -> None:
    generator = np.random.default_rng(1)
    for _ in range(100):
        labels: list[str] = []
        for size, kind in zip(generator.integers(4, size=6), generator.choice(["PER", "LOC"], size=6), strict=True):
            middle = [f"B-{kind}", *[f"I-{kind}"] * (size - 2), f"{last}-{kind}"]
            labels += ["O"] if size == 0 else [f"{alone}-{kind}"] if size == 1 else middle
        (expected,) = Entities([labels], scheme).entities
        assert mentions_of(labels) == [Mention(one.tag, one.start, one.end) for one in expected]
