"""A slip in a script or a notebook shows the caller's own line and what to do, not frames of the client or of gRPC."""

import asyncio
import inspect
import traceback
from collections.abc import Iterator

import bertscope
import grpc
import pytest
from IPython.core.interactiveshell import InteractiveShell


@pytest.fixture
def client(lab) -> Iterator[bertscope.Client]:
    with bertscope.Client(lab.target) as connected:
        yield connected


def test_an_error_has_the_callers_line_and_grpcs_error_as_an_attribute(client) -> None:
    with pytest.raises(bertscope.InvalidArgument) as caught:
        client.fill_mask("a [MASK]", top_k=0)
    shown = "".join(traceback.format_exception(caught.value))
    assert 'client.fill_mask("a [MASK]", top_k=0)' in shown
    assert "_InactiveRpcError" not in shown
    assert len(shown.splitlines()) < 12
    assert isinstance(caught.value.grpc_error, grpc.RpcError)


def test_so_has_a_wrong_value() -> None:
    with pytest.raises(bertscope.InvalidArgument) as caught:
        bertscope.zero(3, "a")
    assert len("".join(traceback.format_exception(caught.value)).splitlines()) < 20


def test_a_notebook_shows_the_cells_line_and_the_message(client, capsys) -> None:
    shell = InteractiveShell()
    shell.push({"client": client})
    shell.run_cell('client.fill_mask("a [MASK]", top_k=0)', store_history=False)
    shown = capsys.readouterr().out.strip().splitlines()
    assert len(shown) == 2
    assert 'client.fill_mask("a [MASK]", top_k=0)' in shown[0]
    assert shown[1].startswith("InvalidArgument: top_k is 0")
    shell.run_cell('client.fill_mask("a [MASK]", topk=3)', store_history=False)
    shown = capsys.readouterr().out.strip().splitlines()
    assert shown[1:] == ["WrongArgument: fill_mask() has no argument topk; did you mean top_k?"]
    for call in ("texts('no.txt')", "conllu('no.conllu')", "span_texts('no.jsonl')", "gold_alignments('no.')"):
        shell.run_cell(f"import bertscope_workbench as files; files.read_{call}", store_history=False)
        shown = capsys.readouterr().out.strip().splitlines()
        assert (len(shown), shown[1][:54]) == (2, "MissingFile: [Errno 2] No such file or directory: 'no.")


def test_a_wrong_argument_names_the_one_that_is_meant(client) -> None:
    with pytest.raises(TypeError, match=r"^fill_mask\(\) has no argument topk; did you mean top_k\?$"):
        client.fill_mask("a [MASK]", topk=3)
    with pytest.raises(TypeError, match=r"^load_model\(\) has no argument folder; it has model, source, device"):
        client.load_model("m", folder="/m")
    with pytest.raises(TypeError, match=r"^fill_mask\(\) missing 1 required positional argument: 'texts'$"):
        client.fill_mask()


def test_a_score_to_explain_is_no_word(client) -> None:
    for ask in (client.attribute_words, lambda text, score: client.trace(text, text, score)):
        with pytest.raises(bertscope.InvalidArgument, match=r"must be one of Answer, .*, not str"):
            ask("a [MASK]", "b")


def test_a_stream_says_how_it_is_read(client) -> None:
    shown = repr(client.sweep_heads(bertscope.ClozePrompts([("a [MASK]", "b")])))
    assert shown == "<HeadSweep: a stream, to be read with `for`, or as a whole by table()>"


async def asked(target: str) -> None:
    async with bertscope.AsyncClient(target) as client:
        await client.fill_mask("a [MASK]", topk=3)


def test_so_it_is_of_the_asynchronous_client(lab) -> None:
    assert inspect.iscoroutinefunction(bertscope.AsyncClient.fill_mask)
    with pytest.raises(TypeError, match="did you mean top_k"):
        asyncio.run(asked(lab.target))


def test_a_name_alone_is_the_source_of_a_model(client) -> None:
    with pytest.raises(bertscope.BertscopeError, match="organisation/no-such-model"):
        client.load_model("organisation/no-such-model")


def test_tls_may_be_true() -> None:
    with bertscope.Client("127.0.0.1:1", tls=True, retries=0) as client, pytest.raises(bertscope.Unavailable):
        client.get_model()
