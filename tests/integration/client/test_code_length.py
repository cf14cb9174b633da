"""`measure_code_length` beside its definition."""

import math
import random
from typing import Any

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope_workbench.analyses.code_length import coded_texts

from tests.support.harness import Host

NAMES = ["city", "cat", "old", "garden", "the"]


def texts(label: Any, count: int = 240) -> list[bertscope.ProbeText]:
    """Texts of three words each."""
    draw, found = random.Random(1), []
    for _ in range(count):
        words = [draw.choice(NAMES) for _ in range(3)]
        starts = [sum(len(word) + 1 for word in words[:place]) for place in range(3)]
        labels = [(label(word, draw), start, start + len(word)) for word, start in zip(words, starts, strict=True)]
        found.append(bertscope.ProbeText(" ".join(words), labels))
    return found


@pytest.mark.slow
def test_the_code_is_that_of_its_definition(host: Host) -> None:
    """The sum of what the probes of each part give, one training at a time."""
    given, dev = texts(lambda word, draw: word), texts(lambda word, draw: word, 20)
    coded = coded_texts(given, dev, 3)
    names = sorted(NAMES)
    with bertscope.Client(host.target) as client:
        found = workbench.measure_code_length(client, given, dev=dev, labels=names, model="bert", layers=[1], seed=3)
        bits = sum(len(text.labels) for text in coded.texts[: coded.ends[0]]) * math.log2(5)
        for begin, end in zip(coded.ends[:-1], coded.ends[1:], strict=True):
            asked = {"test": coded.texts[begin:end], "labels": names, "model": "bert", "layers": [1], "seed": 3}
            probes = client.train_probe(coded.texts[:begin], dev=dev, **asked)
            bits += probes.layer(1).loss * probes.part.spans / math.log(2)
    assert found.layers[0].bits == pytest.approx(bits, rel=1e-4)
    assert found.spans == 3 * len(given) and found.parts[-1] == len(given)


def test_parts_grow_from_the_first_two_classes() -> None:
    given = [bertscope.ProbeText("a b", [("x" if number else "y", 0, 1)]) for number in range(2000)]
    coded = coded_texts(given, given[:5], 0)
    assert len({text.labels[0][0] for text in coded.texts[: coded.ends[0]]}) == 2
    assert coded.ends[-1] == 2000 and list(coded.ends) == sorted(set(coded.ends))
    assert coded_texts(texts(lambda word, draw: word, 1000), (), 0).ends == (1, 2, 4, 8, 15, 29, 57, 113, 225, 450, 900)
    for few in ([], given[1:], given[:2]):
        with pytest.raises(bertscope.InvalidArgument, match="are too few"):
            coded_texts(few, (), 0)
