"""AnswerQuestions through gRPC gives what a search over all spans finds in transformers' own logits."""

from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.v1 import question_answering_pb2 as answering
from transformers import AutoModelForQuestionAnswering, AutoTokenizer

from tests.support.calls import call
from tests.support.harness import Host
from tests.support.tiny import write_checkpoint

NAMES = ("bert", "roberta", "albert")
QUESTION = "Where is the café?"
SHORT = "The café in Zürich serves a naïve soufflé for 3.50 €."
EMOJI = "東京 is large 😀👩‍👩‍👧, and Αθήνα is old. E\u0301lodie saw the cat.\n\n  Paris!"
LONG = " ".join((SHORT, EMOJI, "The dog sat on the table.")) * 3
WINDOW = 64
"""The tokens that the tiny models read."""
Found = dict[tuple[int, int], float]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("answerers")
    return {name: write_checkpoint(name, root / name, task="answers", labels=2) for name in NAMES}


def ask(host: Host, name: str, *passages: str, question: str = QUESTION, **fields: Any) -> list[answering.AnsweredQuestion]:
    inputs = [{"question": question, "passage": passage} for passage in passages]
    reply = call(host, "AnswerQuestions", model=f"models/{name}", inputs=inputs, **fields)
    assert reply.provenance.weights_digest.startswith("sha256:")
    return list(reply.results)


@torch.no_grad()
def search(folder: Path, passage: str, longest: int, stride: int | None) -> tuple[Found, float, list[float], int]:
    """The best score of each span's characters, that of no answer, those of all spans, and how many windows there are, by
    loops over everything."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    reference = AutoModelForQuestionAnswering.from_pretrained(folder, attn_implementation="eager").eval()
    encoding = tokenizer(QUESTION, passage, return_offsets_mapping=True)
    places = [place for place, which in enumerate(encoding.sequence_ids()) if which == 1]
    around = len(encoding["input_ids"]) - len(places)
    held = WINDOW - around
    stride = stride or held // 2
    windows, first = [], 0
    while True:
        windows.append(range(first, min(first + held, len(places))))
        if first + held >= len(places):
            break
        first += stride
    owner = {
        token: max(
            (number for number, window in enumerate(windows) if token in window),
            # The first of equals, as max() has it.
            key=lambda number: min(token - windows[number][0], windows[number][-1] - token) + 0.01 * len(windows[number]),
        )
        for token in range(len(places))
    }
    found: Found = {}
    nothing, everything = [], []
    for number, window in enumerate(windows):
        rows = {
            name: encoding[name][: places[0]]
            + [encoding[name][places[token]] for token in window]
            + encoding[name][places[-1] + 1 :]
            for name in tokenizer.model_input_names
        }
        output = reference(**{name: torch.tensor([row]) for name, row in rows.items()})
        begins, ends = output.start_logits[0].double().tolist(), output.end_logits[0].double().tolist()
        nothing.append(begins[0] + ends[0])
        for begin in window:
            for end in range(begin, min(begin + longest, window[-1] + 1)):
                spans = [characters(passage, *encoding["offset_mapping"][places[token]]) for token in (begin, end)]
                if owner[begin] == number and all(start < stop for start, stop in spans):
                    score = begins[places[0] + begin - window[0]] + ends[places[0] + end - window[0]]
                    span = spans[0][0], spans[1][1]
                    everything.append(score)
                    found[span] = max(found.get(span, -np.inf), score)
    return found, min(nothing), everything, len(windows)


def characters(text: str, start: int, end: int) -> tuple[int, int]:
    """A token's characters without the blanks around them."""
    covered = text[start:end]
    start += len(covered) - len(covered.lstrip())
    return start, start + len(covered.strip())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("passage", "stride", "longest"), [(SHORT, None, 30), (EMOJI, None, 4), (LONG, None, 6), (LONG, 9, 500), (LONG, 1, 1)]
)
def test_the_best_spans_are_those_of_a_search(
    zoo: Host, folders: dict[str, Path], name: str, passage: str, stride: int | None, longest: int
) -> None:
    found, nothing, everything, windows = search(folders[name], passage, longest, stride)
    answer, _ = ask(zoo, name, passage, SHORT, best=9, max_answer_tokens=longest, **({"stride": stride} if stride else {}))
    assert answer.windows == windows
    assert (windows > 1) == (passage == LONG)
    expected = sorted(found.values(), reverse=True)[:9]
    np.testing.assert_allclose([span.score for span in answer.spans], expected, atol=2e-5)
    np.testing.assert_allclose([span.score for span in answer.spans], [found[s.start, s.end] for s in answer.spans], atol=2e-5)
    total = np.logaddexp.reduce([*everything, nothing])
    np.testing.assert_allclose([span.probability for span in answer.spans], np.exp(np.array(expected) - total), atol=1e-5)
    assert answer.no_answer_score == pytest.approx(nothing - expected[0], abs=5e-5)
    assert answer.no_answer_probability == pytest.approx(np.exp(nothing - total), abs=1e-5)
    assert len({(span.start, span.end) for span in answer.spans}) == len(answer.spans)
    # At least for some the best span is no accident of the order.
    assert np.ptp([span.score for span in answer.spans]) > 1e-3
    tokenizer = AutoTokenizer.from_pretrained(folders[name])
    assert answer.tokens == len(tokenizer(QUESTION, passage)["input_ids"])


def test_the_client_reads_answers_in_the_passage(zoo: Host) -> None:
    with bertscope.Client(zoo.target) as client:
        first, second = client.answer_questions([(QUESTION, EMOJI), (QUESTION, LONG)], model="bert", best=4, stride=5)
    for answer, passage in ((first, EMOJI), (second, LONG)):
        assert [span.text for span in answer.spans] == [passage[span.start : span.end] for span in answer.spans]
        assert all(span.text == span.text.strip() for span in answer.spans)
    assert (first.windows, len(first.spans), first.answer) == (1, 4, first.spans[0].text)
    assert second.windows > 1
