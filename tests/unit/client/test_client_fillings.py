"""Joint fillings: the request, the reply read, its table, what the command prints."""

import dataclasses
import io
import json
import pickle

import bertscope
import pytest
from bertscope.questions.cloze.answers import FilledTexts, read_filled_texts
from bertscope.questions.cloze.requests import fill_mask_request
from bertscope.v1 import cloze_pb2, common_pb2
from bertscope_workbench.command.options.texts import answers_document
from bertscope_workbench.command.views.cloze import print_answer
from bertscope_workbench.command.views.output import json_text
from rich.console import Console

TEXT = "The [MASK] saw the [MASK]."


def span(token, ids, logs, steps):
    pieces = [f"p{number}" for number in ids]
    return cloze_pb2.FilledSpan(token=token, pieces=pieces, piece_ids=ids, log_probabilities=logs, steps=steps)


def reply():
    first = [span("old man", [3, 4], [-0.5, -0.25], [1, 2]), span("dog", [5], [-1.0], [0])]
    second = [span("cat", [6], [-1.5], [0]), span("\x1b[31m", [7], [-2.5], [1])]
    fillings = [
        cloze_pb2.Filling(spans=spans, log_probability=total, mean_log_probability=mean)
        for spans, total, mean in ((first, -1.75, -0.583), (second, -4.0, -2.0))
    ]
    masks = [cloze_pb2.FilledMask(token_index=2, start=4, end=10), cloze_pb2.FilledMask(token_index=5, start=19, end=25)]
    text = cloze_pb2.FilledText(masks=masks, tokens=8, fillings=fillings)
    return cloze_pb2.FillMaskResponse(results=[text], provenance=common_pb2.Provenance(model="models/m"))


@pytest.fixture
def answers() -> FilledTexts:
    return read_filled_texts([TEXT], reply())


def test_a_request_names_what_is_set():
    usual = {"model": None, "top_k": None, "candidates": None, "interventions": (), "reference_texts": (), "truncate": False}
    assert fill_mask_request(**usual) == cloze_pb2.FillMaskRequest()
    request = fill_mask_request(**usual, decoding="confidence_first", max_pieces=3)
    assert request == cloze_pb2.FillMaskRequest(decoding=cloze_pb2.MASK_DECODING_CONFIDENCE_FIRST, max_pieces=3)
    assert fill_mask_request(**usual, decoding="beam", beam_width=7).beam_width == 7
    names = {fill_mask_request(**usual, decoding=name).decoding for name in bertscope.Decoding.__args__}
    assert names == set(cloze_pb2.MaskDecoding.values()) - {cloze_pb2.MASK_DECODING_UNSPECIFIED}


def test_fillings_are_read(answers):
    (answer,) = answers
    first, second = answer.fillings
    assert first.tokens == ("old man", "dog")
    assert first.spans[0] == bertscope.FilledSpan("old man", ("p3", "p4"), (3, 4), (-0.5, -0.25), (1, 2))
    assert (second.log_probability, second.mean_log_probability) == (-4.0, -2.0)
    assert [mask.predictions for mask in answer.masks] == [(), ()]


def test_fillings_are_written_into_the_text(answers):
    assert answers[0].filled[0] == "The old man saw the dog."


def test_a_plain_answer_has_no_fillings():
    (answer,) = read_filled_texts(["[MASK]"], cloze_pb2.FillMaskResponse(results=[cloze_pb2.FilledText(tokens=3)]))
    assert (answer.fillings, answer.filled) == ((), [])


def test_an_answer_survives_pickle_and_replace(answers):
    assert pickle.loads(pickle.dumps(answers[0])) == answers[0] == dataclasses.replace(answers[0])
    assert len(pickle.loads(pickle.dumps(answers[0])).fillings) == 2


def test_a_table_has_a_row_for_each_filling(answers):
    table = answers.to_pandas()
    assert list(table.columns) == ["text", "order", "filled", "tokens", "pieces", "log_probability", "mean_log_probability"]
    assert table.order.tolist() == [1, 2]
    assert table.tokens[0] == ("old man", "dog")
    assert table.pieces[0] == (("p3", "p4"), ("p5",))
    assert answers[0].to_pandas().equals(table)


def test_the_command_prints_a_column_for_each_mask(answers):
    screen = io.StringIO()
    print_answer(Console(file=screen, width=100), answers[0])
    printed = screen.getvalue()
    assert printed.splitlines()[0] == TEXT
    assert "mask 1" in printed
    assert "old man   dog" in printed
    assert "-1.750" in printed
    assert "-0.583" in printed
    assert "\x1b" not in printed


def test_json_has_every_number(answers):
    found = json.loads(json_text(answers_document(list(answers))))
    (result,) = found["results"]
    assert result["fillings"][0]["spans"][0]["log_probabilities"] == [-0.5, -0.25]
    assert result["fillings"][1]["mean_log_probability"] == -2.0


def test_a_row_of_a_file_has_both_sums(answers):
    row = answers[0].to_row()
    assert row["fillings"][0] == ("old man", "dog")
    assert (row["filling_log_probabilities"], row["filling_mean_log_probabilities"]) == ([-1.75, -4.0], [-0.583, -2.0])
