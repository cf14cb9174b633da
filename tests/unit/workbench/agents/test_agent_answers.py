"""Answers of agents: replies as documents, cut to a budget, with the rest in files."""

import json
import math
import stat

import numpy as np
import pytest
from bertscope.errors import InvalidArgument, InvalidReply, ResourceExhausted
from bertscope.v1 import attention_pb2, cloze_pb2, common_pb2, model_pb2, representation_lens_pb2
from bertscope_workbench.agents import budget, replies
from bertscope_workbench.agents.arguments import request
from bertscope_workbench.agents.calls import Told
from bertscope_workbench.agents.contract import operations
from bertscope_workbench.agents.results import KEPT, Results
from bertscope_workbench.agents.server import failure


def tensor(values):
    values = np.asarray(values, "<f4")
    return common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=values.shape, data=values.tobytes())


def test_a_reply_is_a_document(stored):
    source = common_pb2.Provenance(model="models/m", library_versions={"torch": "2"})
    wrong = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=[2, 2], data=b"1234")
    stored(
        filled=replies.document(cloze_pb2.FillMaskResponse(results=[cloze_pb2.FilledText()], provenance=source)),
        tensor=replies.document(representation_lens_pb2.LogitAttribution(heads=tensor([[1, 2], [3, 4]]))),
        bytes_that_do_not_fit=lambda: replies.document(representation_lens_pb2.LogitAttribution(heads=wrong)),
    )


def header(index, shape):
    announced = common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=shape)
    return attention_pb2.ExtractAttentionResponse(
        header=attention_pb2.AttentionHeader(input_index=index, attention=announced, layers=[0], heads=[0])
    )


def chunk(index, offset, data):
    return attention_pb2.ExtractAttentionResponse(
        chunk=attention_pb2.AttentionChunk(input_index=index, offset=offset, data=data)
    )


def test_a_stream_that_breaks_off_or_begins_in_its_middle():
    stream = replies.Stream()
    stream.add(header(0, [1, 1, 1, 2]))
    stream.add(chunk(0, 0, b"1234"))
    with pytest.raises(InvalidReply, match="ended early"):
        stream.document()
    with pytest.raises(InvalidReply, match="has not begun"):
        stream.add(chunk(1, 0, b"1234"))


def test_progress_is_no_part_of_an_answer():
    stream = replies.Stream()
    progress = model_pb2.LoadProgress(done_bytes=3, total_bytes=10, detail="model.safetensors")
    name, event = stream.add(model_pb2.LoadModelResponse(progress=progress))
    assert name == "progress"
    assert replies.steps(event) == (3, 10, "doneBytes 3, totalBytes 10, detail model.safetensors")
    stream.add(model_pb2.LoadModelResponse(model=model_pb2.Model(name="models/m")))
    assert stream.document().keys() == {"model"}


async def collected(told, *steps):
    for each in steps:
        await told.tell(*each)


def test_what_is_told_only_grows():
    import asyncio

    seen = []

    async def report(*given):
        seen.append(given)

    told = Told("load_model", report)
    asyncio.run(collected(told, (0, 10, "a"), (10, 10, "b"), (10, 10, "c"), (0, 5, "d"), (5, 5, "e"), (None, None, "f")))
    assert [(done, total) for done, total, _ in seen] == [(0, 10), (10, 10), (15, 15)]
    assert seen[0][2] == "load_model: a"


def effects(count):
    return {"effect": [{"head": index, "metrics": [{"difference": -float(index)}], "text": "x" * 50} for index in range(count)]}


def test_answers_are_cut_to_a_budget(stored):
    """A list keeps its largest effects, an array its extremes; an answer that never fits is named by its parts."""
    values, large = np.zeros((6, 12), np.float32), np.zeros((6, 12), np.float32)
    values[5, 3], values[0, 1], values[2, 2] = 2, -1, np.nan
    large[5, 3], large[0, 1] = np.inf, np.finfo(np.float32).max
    given = {
        "long_list": (effects(100), 2000),
        "large_array": ({"heads": values}, 1000),
        "no_numbers_of_json": ({"heads": large, "most": np.finfo(np.float64).max}, 1000),
        "never_fits": ({f"name{index}": "x" * 300 for index in range(20)}, 1000),
    }
    found = {name: budget.reduced(*each) for name, each in given.items()}
    assert all(len(budget.text(found[name].answer)) <= most for name, (_, most) in given.items())
    stored(**{name: [json.loads(budget.text(one.answer)), one.cuts] for name, one in found.items()})


def test_full_results_are_read_in_parts(tmp_path):
    results = Results.of(tmp_path / "new")
    path = results.write("sweep", {"a/b": [{"c": np.arange(6.0).reshape(2, 3)}], "d": float("inf")})
    assert stat.S_IMODE((tmp_path / "new" / "sweep-1.json").stat().st_mode) == 0o600
    assert json.loads((tmp_path / "new" / "sweep-1.json").read_text())["d"] is None
    np.testing.assert_array_equal(results.read(path, "/a~1b/0/c"), [[0, 1, 2], [3, 4, 5]])
    assert results.read("sweep-1.json", "/a~1b/0/c/1/2") == 5
    for pointer in ("/x", "/a~1b/9", "/a~1b/0/c/5", "/d/1"):
        with pytest.raises(InvalidArgument, match="is not there"):
            results.read(path, pointer)
    with pytest.raises(InvalidArgument, match="must begin with a slash, as /d;"):
        results.read(path, "d")
    for other in ("sweep-2.json", "../../etc/passwd", ""):
        with pytest.raises(InvalidArgument, match="no result of this process"):
            results.read(other, "")


def test_the_oldest_results_go(tmp_path):
    results = Results.of(tmp_path)
    for _ in range(KEPT + 1):
        results.write("a", {"x": np.zeros(2)})
    assert not (tmp_path / "a-1.json").exists()
    assert not (tmp_path / "a-1.npz").exists()
    assert len(list(tmp_path.iterdir())) == 2 * KEPT


def test_files_of_another_process_stay(tmp_path):
    (tmp_path / "a-1.json").write_text("mine")
    assert Results.of(tmp_path).write("a", {}).endswith("a-2.json")
    assert (tmp_path / "a-1.json").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments",
    [
        {"topK": "many"},
        {"decoding": "MASK_DECODING_NONE"},
        {"topK": -1},
        {"decoding": math.inf},
    ],
)
def test_arguments_of_another_form_are_refused(arguments):
    with pytest.raises(InvalidArgument, match="`describe` tells the fields of fill_mask"):
        request(operations()["fill_mask"], arguments)


def test_a_failure_says_when_to_ask_again_if_the_server_did(stored):
    full = ResourceExhausted("the queue is full", reason="QUEUE_FULL", retry_after=1.5, request_id="r1")
    stored(full=failure(full), bare=failure(ResourceExhausted("the queue is full")))
