"""Pairs of texts in FillMask: their answers, tables and output."""

import io

import pytest
from bertscope.questions.cloze.answers import read_cloze
from bertscope.questions.cloze.candidates import ClozeItem
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.v1 import cloze_pb2
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.cloze import print_answer
from rich.console import Console

PAIR = ClozeItem("He [MASK].", "It [MASK].")
WORDS = [cloze_pb2.Prediction(token="ran", probability=0.5, log_probability=-0.7, rank=1)]
SPANS = [cloze_pb2.FilledSpan(token=word, pieces=[word], piece_ids=[1]) for word in ("ran", "sat")]
MASKS = [
    cloze_pb2.FilledMask(token_index=2, start=3, end=9, predictions=WORDS),
    cloze_pb2.FilledMask(token_index=6, start=3, end=9, predictions=WORDS, segment=1),
]


def answers(items, *results):
    return read_cloze(items, cloze_pb2.FillMaskResponse(results=results))


def shown(answer):
    screen = io.StringIO()
    print_answer(Console(file=screen, width=100), answer)
    return screen.getvalue()


def test_the_request_asks_whether_the_second_text_follows():
    usual = {"model": None, "top_k": None, "candidates": None, "interventions": (), "reference_texts": (), "truncate": False}
    assert fill_mask_request(**usual, next_sentence=True) == cloze_pb2.FillMaskRequest(next_sentence=True)


def test_a_pair_with_masks_and_one_without():
    found = answers(
        [PAIR, ClozeItem("A.", "B.")],
        cloze_pb2.FilledText(masks=MASKS, tokens=9, next_sentence_probability=0.25),
        cloze_pb2.FilledText(tokens=7, next_sentence_probability=0.0),
    )
    first, second = found
    assert [(mask.segment, mask.start) for mask in first.masks] == [(0, 3), (1, 3)]
    assert (first.text_pair, first.next_sentence_probability) == ("It [MASK].", 0.25)
    assert (second.masks, second.next_sentence_probability) == ((), 0.0)
    table = found.to_pandas()
    assert table["next_sentence_probability"].tolist() == [0.25, 0.25, 0.0]
    assert table["text_pair"].tolist() == ["It [MASK].", "It [MASK].", "B."]
    assert table["segment"].tolist()[:2] == [0, 1]
    assert table["token"].isna().tolist() == table["segment"].isna().tolist() == [False, False, True]
    assert "the second text follows the first: 0.2500" in shown(first)
    assert shown(second).splitlines()[:2] == ["A.", "B."]
    assert answers_document([second])["results"][0]["next_sentence_probability"] == 0.0
    assert (first.to_row()["next_sentence_probability"], first.to_row()["truncated_tokens"]) == (0.25, 0)


def test_fillings_are_written_into_both_texts():
    filling = cloze_pb2.Filling(spans=SPANS, log_probability=-2, mean_log_probability=-1)
    bare = [cloze_pb2.FilledMask(start=3, end=9, segment=segment) for segment in (0, 1)]
    found = answers(
        [PAIR, ClozeItem("A.", "B.")], cloze_pb2.FilledText(masks=bare, fillings=[filling]), cloze_pb2.FilledText(tokens=7)
    )
    assert (found[0].filled, found[0].filled_pair) == (["He ran."], ["It sat."])
    assert found[0].next_sentence_probability is None
    table = found.to_pandas()
    assert table["filled_pair"].tolist()[0] == "It sat."
    assert table["text_pair"].tolist() == ["It [MASK].", "B."]


@pytest.mark.parametrize("text_pair", [None, "B."])
def test_tables_of_texts_alone_have_no_columns_of_pairs(text_pair):
    table = answers([ClozeItem("[MASK]", text_pair)], cloze_pb2.FilledText(masks=MASKS[:1])).to_pandas()
    assert ("text_pair" in table, "segment" in table) == (text_pair is not None,) * 2
