"""Answers of FillMask: words, joint fillings, pairs of texts and logits; texts that go with their candidates."""

import dataclasses
import pickle
from typing import Any

import pytest
from bertscope.questions.cloze.answers import ClozeItem, asked_cloze, read_cloze, with_cloze_items
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope.v1.cloze_pb2 import FillMaskRequest
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.cloze import print_answer
from bertscope_workbench.readers.items.naming import with_places

from tests.support.broken_replies import refusals
from tests.support.stored_outputs import outcome, printed

PAIR, PLAIN = ClozeItem("The [MASK] saw.", "It [MASK]."), ClozeItem("A.", "B.")


def word(token: str, **fields: Any) -> cloze_pb2.Prediction:
    given = {"pieces": ["a", "##b"], "piece_ids": [1, 2], "probability": 0.5, "log_probability": -0.7}
    return cloze_pb2.Prediction(token=token, **given | fields)


def span(token: str, ids: list[int], logs: list[float], steps: list[int], removed: int = 0) -> cloze_pb2.FilledSpan:
    """What continues the word before is told by `removed` blanks."""
    pieces = [f"p{number}" for number in ids]
    found = cloze_pb2.FilledSpan(token=token, pieces=pieces, piece_ids=ids, log_probabilities=logs, steps=steps)
    found.text, found.removed_blanks = token.removeprefix("##"), removed
    return found


def masks(*predictions: cloze_pb2.Prediction) -> list[cloze_pb2.FilledMask]:
    return [
        cloze_pb2.FilledMask(token_index=2, start=4, end=10, predictions=predictions),
        cloze_pb2.FilledMask(token_index=6, start=3, end=9, predictions=predictions[:1], segment=1),
    ]


def reply(*results: cloze_pb2.FilledText) -> cloze_pb2.FillMaskResponse:
    return cloze_pb2.FillMaskResponse(results=results, provenance=common_pb2.Provenance(model="models/m"))


WORDS = reply(
    cloze_pb2.FilledText(
        masks=masks(word("ran", logit=-2.5, rank=3, candidate_probability=0), word("\x1b[31m")),
        tokens=9,
        truncated_tokens=1,
        next_sentence_probability=0.25,
    ),
    cloze_pb2.FilledText(tokens=7, next_sentence_probability=0.0),
)
FIRST = [span("old man", [3, 4], [-0.5, -0.25], [1, 2]), span("##self", [5], [-1.0], [0], removed=1)]
SECOND = [span("cat", [6], [-1.5], [0]), span("\x1b[31m", [7], [-2.5], [1])]
FILLINGS = reply(
    cloze_pb2.FilledText(
        masks=masks(),
        tokens=8,
        fillings=[
            cloze_pb2.Filling(spans=spans, log_probability=total, mean_log_probability=mean)
            for spans, total, mean in ((FIRST, -1.75, -0.583), (SECOND, -4.0, -2.0))
        ],
    )
)


@pytest.mark.parametrize(("name", "items", "sent"), [("words", [PAIR, PLAIN], WORDS), ("fillings", [PAIR], FILLINGS)])
def test_answers(name: str, items: list[ClozeItem], sent: cloze_pb2.FillMaskResponse, stored) -> None:
    found = read_cloze(items, sent)
    for answer in found:
        assert pickle.loads(pickle.dumps(answer)) == answer == dataclasses.replace(answer)
        assert pickle.loads(pickle.dumps(answer)).fillings == answer.fillings
    stored(
        answers=found,
        filled=[[answer.filled, answer.filled_pair] for answer in found],
        alone=found[0].to_pandas().equals(found[:1].to_pandas()),
        row=found[0].to_row(),
        printed="\n".join(printed(print_answer, answer) for answer in found),
        document=answers_document(list(found)),
        broken=refusals(lambda messages: read_cloze(items, *messages), sent),
    )


def test_each_text_goes_with_its_candidates(stored) -> None:
    asked = asked_cloze(["a [MASK]", "b [MASK]"], ["c", "d"], [["x"], iter(["y", "z"])])
    lazy = asked_cloze((text for text in "ab"), (text for text in "cd"), ([name] for name in "xy"))
    refused: list[tuple[Any, Any, Any]] = [(["a"], None, lists) for lists in ([["x"], ["y"]], "x", ["x"], [7])]
    refused += [(["a", "b"], None, [["x"]]), (["a", "b"], None, [["x"], ["y", 3]])]
    refused += [(["a"], None, iter([["x"], ["y"]])), (iter("ab"), None, [["x"]])]
    refused += [(["a"], ["b", "c"], None), (iter("a"), ["b", "c"], None), (iter("ab"), ["c"], None), (["a"], [7], None)]
    stored(
        request=with_cloze_items(FillMaskRequest(), asked.items),
        totals=[asked.total, lazy.total],
        lazy=[next(lazy.items), *lazy.items],
        refused=[outcome(lambda given=given: list(asked_cloze(*given).items)) for given in refused],
    )


def test_a_rejected_candidate_is_named_by_its_place():
    message = "text_candidates[1].words[0] can't be written; texts[7].text, too"
    found = with_places(message, lambda index: f"line {index + 4}" if index < 2 else None)
    assert found == "candidate 1 of line 5 can't be written; texts[7].text, too"
    assert with_places("text_pairs[1] is empty", lambda index: f"line {index + 4}") == "the second text of line 5 is empty"
