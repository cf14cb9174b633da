"""Words that FillMask scores: candidates of each text, entries by their ids, and logits."""

import io

import bertscope
import pytest
from bertscope.questions.cloze.answers import read_cloze, read_filled_texts
from bertscope.questions.cloze.candidates import ClozeItem, asked_cloze, with_cloze_items
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.v1 import cloze_pb2
from bertscope_workbench.command.views.cloze import print_answer
from bertscope_workbench.readers.items.naming import with_places
from rich.console import Console

USUAL = {"model": None, "top_k": None, "candidates": None, "interventions": (), "reference_texts": (), "truncate": False}


def test_each_text_goes_with_its_candidates():
    asked = asked_cloze(["a [MASK]", "b [MASK]"], ["c", "d"], [["x"], iter(["y", "z"])])
    items = list(asked.items)
    assert (asked.total, items) == (2, [("a [MASK]", "c", ["x"]), ("b [MASK]", "d", ["y", "z"])])
    request = with_cloze_items(fill_mask_request(**USUAL), items)
    assert (list(request.texts), list(request.text_pairs)) == (["a [MASK]", "b [MASK]"], ["c", "d"])
    assert [list(given.words) for given in request.text_candidates] == [["x"], ["y", "z"]]


def test_iterators_are_read_as_they_are_needed():
    asked = asked_cloze((text for text in "ab"), (text for text in "cd"), ([word] for word in "xy"))
    assert asked.total is None
    assert next(asked.items) == ("a", "c", ["x"])
    assert list(asked.items) == [("b", "d", ["y"])]


@pytest.mark.parametrize(
    ("texts", "lists", "field"),
    [
        (["a"], [["x"], ["y"]], "candidates_per_text"),
        (["a", "b"], [["x"]], "candidates_per_text"),
        (["a"], iter([["x"], ["y"]]), "candidates_per_text"),
        (iter("ab"), [["x"]], "candidates_per_text"),
        (["a"], "x", "candidates_per_text"),
        (["a"], ["x"], "candidates_per_text[0]"),
        (["a", "b"], [["x"], ["y", 3]], "candidates_per_text[1][1]"),
        (["a"], [7], "candidates_per_text[0]"),
    ],
)
def test_what_is_no_list_for_each_text_is_refused(texts, lists, field):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        list(asked_cloze(texts, None, lists).items)
    assert [violation.field for violation in caught.value.field_violations] == [field]


@pytest.mark.parametrize(
    ("texts", "pairs", "field"),
    [
        (["a"], ["b", "c"], "text_pairs"),
        (iter("a"), ["b", "c"], "text_pairs"),
        (iter("ab"), ["c"], "text_pairs"),
        (["a"], [7], "text_pairs[0]"),
        (["a"], 7, "text_pairs"),
    ],
)
def test_what_is_no_second_text_for_each_is_refused(texts, pairs, field):
    with pytest.raises(bertscope.InvalidArgument) as caught:
        list(asked_cloze(texts, pairs, None).items)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_ids_and_logits_are_in_the_request():
    request = fill_mask_request(**USUAL, piece_ids=[3, 7], logits=True)
    assert request == cloze_pb2.FillMaskRequest(piece_ids=[3, 7], logits=True)
    assert list(fill_mask_request(**USUAL, piece_ids=3).piece_ids) == [3]
    for arguments, field in (
        ({"piece_ids": [-1]}, "piece_ids[0]"),
        ({"piece_ids": []}, "piece_ids"),
        ({"logits": 1}, "logits"),
    ):
        with pytest.raises(bertscope.InvalidArgument) as caught:
            fill_mask_request(**USUAL, **arguments)
        assert [violation.field for violation in caught.value.field_violations] == [field]


def reply(*logits):
    predictions = [cloze_pb2.Prediction(token="a", probability=0.5, log_probability=-0.7, logit=logit) for logit in logits]
    masks = [cloze_pb2.FilledMask(start=0, end=6, predictions=predictions)]
    return cloze_pb2.FillMaskResponse(results=[cloze_pb2.FilledText(masks=masks, tokens=3)])


def test_a_logit_of_zero_is_not_a_missing_one():
    (answer,) = read_cloze([ClozeItem("[MASK]", None, ["a"])], reply(1.5, 0.0, None))
    assert [word.logit for word in answer.masks[0].predictions] == [1.5, 0.0, None]


def test_tables_have_logits_if_there_are_any():
    some, none = (read_filled_texts(["[MASK]"], reply(*logits)) for logits in ((-2.5, None), (None, None)))
    assert some.to_pandas()["logit"].tolist()[0] == -2.5
    assert some.to_pandas()["logit"].isna().tolist() == [False, True]
    assert "logit" not in none.to_pandas()
    for answers, shown in ((some, True), (none, False)):
        screen = io.StringIO()
        print_answer(Console(file=screen, width=100), answers[0])
        assert ("logit" in screen.getvalue(), "-2.5000" in screen.getvalue()) == (shown, shown)


def test_a_rejected_candidate_is_named_by_its_place():
    message = "text_candidates[1].words[0] can't be written; texts[7].text, too"
    found = with_places(message, lambda index: f"line {index + 4}" if index < 2 else None)
    assert found == "candidate 1 of line 5 can't be written; texts[7].text, too"
    assert with_places("text_pairs[1] is empty", lambda index: f"line {index + 4}") == "the second text of line 5 is empty"
