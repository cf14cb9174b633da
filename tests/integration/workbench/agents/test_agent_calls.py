"""Agents' calls reach a server through the protocol's own client, and come back as documents or as errors that help."""

import asyncio
import json
from contextlib import asynccontextmanager

import anyio
import pytest
from bertscope_service.contract import METHODS
from bertscope_workbench.agents.calls import Calls
from bertscope_workbench.agents.contract import chosen, operations, schemas
from bertscope_workbench.agents.results import Results
from bertscope_workbench.agents.server import Tools, make_server
from google.protobuf.json_format import MessageToDict
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.support.harness import held
from tests.support.patience import granted, wait_until
from tools.protos.samples import SAID, good, refused_requests

pytestmark = pytest.mark.usefixtures("brief")

BY_PATH = {method.path: method for method in METHODS.values()}
ASKED = ["fill_mask", "extract_attention", "sweep_heads", "rank_heads", "inspect", "find_contexts", "train_probe"]
"""Tools of every shape of reply: one message, tensors in chunks, events, progress."""
OURS = {BY_PATH[operation.path].name: operation.name for operation in operations().values()}
refused_ones = [*{OURS[bad.method.name]: bad.request for bad in refused_requests() if bad.method.name in OURS}.items()]
"""One for each tool."""
BOTH = pytest.mark.parametrize("mode", ["legacy", "auto"])
"""The protocol with a handshake, and the one without."""


@asynccontextmanager
async def connected(target, folder, mode="auto", most=16_000, **options):
    async with Calls(target, **options) as calls:
        served = Tools(calls, chosen("all"), Results.of(folder), most)
        async with Client(make_server(served, target=target, folder=str(folder), most=most), mode=mode) as client:
            yield client


async def asked(client, name, arguments, **options):
    result = await client.call_tool(name, arguments, **options)
    (content,) = result.content
    return result.is_error, json.loads(content.text)


def ask(target, folder, name, arguments, **options):
    async def work():
        async with connected(target, folder, **options) as client:
            with anyio.fail_after(granted(60)):
                return await asked(client, name, arguments)

    return asyncio.run(work())


def as_json(request):
    return MessageToDict(request)


def validator(name):
    """Checks requests by the whole schema of a request, whose references are those of the contract."""
    rewritten = json.loads(json.dumps(dict(schemas())).replace("#/components/schemas/", "#/$defs/"))
    return Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": rewritten})


@pytest.mark.slow
def test_good_requests_are_valid(checkpoints):
    requests = good(checkpoints["bert"])
    for operation in operations().values():
        validator(operation.schema).validate(as_json(requests[BY_PATH[operation.path].name]))


@pytest.mark.parametrize("name", ASKED)
def test_a_good_request_is_answered(lab, checkpoints, tmp_path, name):
    operation = operations()[name]
    request = as_json(good(checkpoints["bert"])[BY_PATH[operation.path].name])
    before = lab.names()
    is_error, document = ask(lab.target, tmp_path, name, request)
    lab.unload_all_but(before)
    assert not is_error, document
    assert ("cut" in document) == ("full_result" in document)
    assert isinstance(document["answer"], dict)
    assert len(json.dumps(document["answer"], separators=(",", ":"), ensure_ascii=False)) <= 16_000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "request_"), refused_ones, ids=[f"{number}: {name}" for number, (name, _) in enumerate(refused_ones)]
)
def test_a_bad_request_is_an_error_that_helps(lab, tmp_path, name, request_):
    is_error, document = ask(lab.target, tmp_path, name, as_json(request_))
    assert is_error
    error = document["error"]
    assert error["status"] not in ("INTERNAL", "UNKNOWN")
    assert error["message"]
    assert error["reason"]


@BOTH
def test_a_cancelled_tool_call_cancels_its_rpc(lab, tmp_path, mode):
    def cancelled():
        return lab.metric("bertscope_requests_total", method="FillMask", code="CANCELLED")

    before = cancelled()

    async def work():
        async with connected(lab.target, tmp_path, mode) as client, anyio.create_task_group() as group:
            group.start_soon(asked, client, "fill_mask", {"texts": [SAID]})
            await asyncio.to_thread(wait_until, lambda: lab.metric("bertscope_requests_in_flight") > 0, "the call runs")
            group.cancel_scope.cancel()

    with held(lab):
        asyncio.run(work())
        wait_until(lambda: cancelled() == before + 1, "the rpc is cancelled")


def test_calls_beside_each_other(lab, tmp_path):
    """Others are answered while some are cancelled."""

    async def work():
        async with connected(lab.target, tmp_path) as client:

            async def answered():
                is_error, document = await asked(client, "fill_mask", {"texts": [SAID], "topK": 2})
                assert not is_error
                return document["answer"]["results"]

            async def left():
                with anyio.move_on_after(0):
                    await asked(client, "sweep_heads", SWEEP)

            return await asyncio.gather(*(work for _ in range(8) for work in (answered(), left())))

    found = [each for each in asyncio.run(work()) if each is not None]
    assert len(found) == 8
    assert all(each == found[0] for each in found)


SWEEP = {"objective": {"maskedLmLoss": {"texts": [SAID]}}, "mode": "MODE_ZERO"}


@pytest.mark.slow
@BOTH
def test_progress_of_a_stream(lab, tmp_path, mode):
    told = []

    async def progress(done, total, message):
        told.append((done, total, message))

    async def work():
        async with connected(lab.target, tmp_path, mode) as client:
            is_error, document = await asked(client, "sweep_heads", SWEEP, progress_callback=progress)
            assert not is_error
            return document["answer"]

    answer = asyncio.run(work())
    total = answer["start"][0]["total"]
    assert {each[1] for each in told} == {total}
    assert [each[0] for each in told] == sorted({each[0] for each in told})
    assert told[0][2] == "sweep_heads: start"


def test_a_cut_answer_says_where_the_rest_is(lab, tmp_path):
    async def work():
        async with connected(lab.target, tmp_path, most=1000) as client:
            _, document = await asked(client, "extract_attention", {"inputs": [{"text": SAID}]})
            name = document["full_result"]
            _, layers = await asked(client, "read_result", {"result": name, "pointer": "/header/0/layers"})
            _, row = await asked(
                client, "read_result", {"result": name, "pointer": "/header/0/attention/0/0/0", "start": 1, "count": 2}
            )
            too_large = await asked(client, "read_result", {"result": name, "pointer": "/header/0/attention"})
            wrong = await asked(client, "read_result", {"result": "passwd", "pointer": ""})
            return layers, row, too_large, wrong

    layers, row, too_large, wrong = asyncio.run(work())
    assert layers["answer"] == list(range(layers["entries"]))
    assert (row["start"], row["shown"], len(row["answer"])) == (1, 2, 2)
    assert row["entries"] > 3
    assert too_large[0]
    assert "name a part of it" in too_large[1]["error"]["message"]
    assert wrong[0]
    assert "full_result" in wrong[1]["error"]["message"]


def test_everything_about_a_tool_is_told(lab, tmp_path):
    is_error, told = ask(lab.target, tmp_path, "describe", {"name": "fill_mask"})
    assert not is_error
    assert set(told["request"]["properties"]) == set(schemas()["FillMaskRequest"]["properties"])
    is_error, told = ask(lab.target, tmp_path, "describe", {"name": "FillMasks"})
    assert is_error
    assert "fill_mask" in told["error"]["message"] or "FillMask" in told["error"]["message"]


@pytest.mark.parametrize(
    ("name", "arguments", "part"),
    [
        ("fil_mask", {}, "near to it: fill_mask"),
        ("fill_mask", {"texts": [SAID], "model": "models/nobody"}, "models/nobody"),
        ("read_result", {"result": "x", "start": -1}, "must be a whole number"),
    ],
)
def test_wrong_calls(lab, tmp_path, name, arguments, part):
    is_error, document = ask(lab.target, tmp_path, name, arguments)
    assert is_error
    assert part in document["error"]["message"]


def test_a_tool_that_is_not_offered(lab, tmp_path):
    async def work():
        async with Calls(lab.target) as calls:
            served = Tools(calls, chosen("read"), Results.of(tmp_path), 16_000)
            async with Client(make_server(served, target=lab.target, folder="", most=16_000)) as client:
                names = {tool.name for tool in (await client.list_tools()).tools}
                assert "unload_model" not in names
                return await asked(client, "unload_model", {"name": "models/bert"})

    is_error, document = asyncio.run(work())
    assert is_error
    assert "--tools all" in document["error"]["message"]


def test_an_agent_finds_what_is_not_listed(lab, tmp_path):
    async def work():
        async with Calls(lab.target) as calls:
            served = Tools(calls, chosen("read"), Results.of(tmp_path), 16_000, chosen("usual"))
            async with Client(make_server(served, target=lab.target, folder=str(tmp_path), most=16_000)) as client:
                names = [each.name for each in (await client.list_tools()).tools]
                found = await asked(client, "search_tools", {"query": "hidden states of texts"})
                nothing = await asked(client, "search_tools", {"query": "xyzzy"})
                assert (nothing[1]["tools"], len(nothing[1]["all"])) == ([], len(chosen("read")))
                unnamed = await asked(client, "call_tool", {"tool": "sweep_sites"})
                assert "name: is missing" in unnamed[1]["error"]["message"]
                given = {"texts": ["a text"], "layers": [1], "pooling": "mean", "unit": "text"}
                states = await asked(client, "call_tool", {"name": "extract_hidden_states", "arguments": given})
                wrong = await asked(client, "call_tool", {"name": "load_model", "arguments": {}})
                task = await client.get_prompt("what_does_it_know", {"text": "a [MASK]", "answer": "b"})
                with pytest.raises(MCPError, match="answer: is missing"):
                    await client.get_prompt("what_does_it_know", {"text": "a [MASK]"})
                models = await client.read_resource("bertscope://models")
                every = await client.read_resource("bertscope://tools")
                with pytest.raises(MCPError, match="no result of this process"):
                    await client.read_resource("bertscope://results/none.json")
                prompts = (await client.list_prompts()).prompts
                return names, found, states, wrong, task, models, every, prompts

    names, found, states, wrong, task, models, every, prompts = asyncio.run(work())
    assert len(names) == 16
    assert {"search_tools", "call_tool", "describe", "fill_mask"} <= set(names)
    assert "extract_hidden_states" not in names
    assert "extract_hidden_states" in [each["name"] for each in found[1]["tools"]]
    assert not states[0]
    assert wrong[0]
    assert "--tools all" in wrong[1]["error"]["message"]
    assert "`a [MASK]`" in task.messages[0].content.text
    assert json.loads(models.contents[0].text)["models"][0]["name"] == "models/bert"
    assert len(json.loads(every.contents[0].text)["tools"]) == len(chosen("read"))
    assert len(prompts) == 5
