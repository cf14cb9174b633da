"""`extract_hidden_states` of both clients."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

TEXTS = ["The cat sat.", "The nurse told the doctor.", ("A pair", "of texts")]


def test_both_clients_give_the_same_states(host: Host) -> None:
    with bertscope.Client(host.target) as client:
        found = list(client.extract_hidden_states(TEXTS, model="bert", layers=[4, 0]))
        (half,) = client.extract_hidden_states(TEXTS[0], model="bert", layers=4, dtype="float16")

    async def ask() -> list[bertscope.HiddenStates]:
        async with bertscope.AsyncClient(host.target) as client:
            return [text async for text in client.extract_hidden_states(iter(TEXTS), model="bert", layers=[4, 0])]

    for one, other in zip(found, asyncio.run(ask()), strict=True):
        np.testing.assert_array_equal(one.states, other.states)
    assert [(text.input_index, text.layers, len(text.tokens)) for text in found[:1]] == [(0, (4, 0), 6)]
    assert [text.states.shape for text in found] == [(2, len(text.tokens), 32) for text in found]
    assert found[2].text_pair == "of texts"
    assert len(repr(found[0])) < 400  # a few lines, whatever the text
    np.testing.assert_array_equal(found[0].layer(0), found[0].states[1])
    with pytest.raises(KeyError, match="layer 1"):
        found[0].layer(1)
    np.testing.assert_allclose(half.states[0], found[0].layer(4), atol=5e-3)


def test_units_and_poolings(host: Host) -> None:
    marked = bertscope.StatesInput(("The unplayable song.", "A cat."), [(4, 14), (2, 5, 1)])
    with bertscope.Client(host.target) as client:

        def ask(given: Any, **options: Any) -> bertscope.HiddenStates:
            (text,) = client.extract_hidden_states([given], model="bert", layers=4, **options)
            return text

        pieces = ask(marked.text)
        spans = ask(marked, unit="span", pooling="first")
        words, text = ask(marked.text, unit="word", pooling="last"), ask(marked.text, unit="text")
        wide, narrow = (
            ask(marked.text, unit="text", pooling="max"),
            ask(marked.text, unit="text", pooling="max", dtype="bfloat16"),
        )
    assert [(token.text, token.segment) for token in spans.tokens] == [("unplayable", 0), ("cat", 1)]
    firsts = [
        next(place for place, piece in enumerate(pieces.tokens) if not piece.special and (piece.start, piece.segment) == at)
        for at in ((4, 0), (2, 1))
    ]
    np.testing.assert_allclose(spans.states[0], pieces.states[0, firsts], atol=1e-5)
    assert (spans.unit, spans.pooling, pieces.unit, pieces.pooling) == ("span", "first", "piece", "")
    assert sum(len(word.pieces) for word in words.tokens) == len(pieces.tokens)
    assert (text.tokens, text.states.shape, text.pooling) == ((), (1, 1, 32), "mean")
    np.testing.assert_allclose(text.states[0, 0], pieces.states[0].mean(axis=0), atol=1e-5)
    assert narrow.states.dtype == np.float32
    np.testing.assert_allclose(narrow.states, wide.states, rtol=2**-8)


LONG = "the cat " * 60


def test_the_command_writes_what_the_client_gets(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, output = tmp_path / "in.jsonl", tmp_path / "out.npy"
    rows = [{"text": f"The cat {number} sat.", "spans": [[0, 3], [4, 7]]} for number in range(300)]
    rows[7] |= {"text": LONG, "spans": [[0, 3]]}
    rows[9] |= {"spans": "none"}
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["states", "--texts", str(table), "--target", host.target, "--model", "bert", "--layers", "4,0"]

    def command(*more: str) -> tuple[int, str, str]:
        return run([*asked, *more]), *capsys.readouterr()

    assert command("--unit", "span", "--output", str(output)) == (
        1,
        "",
        f"bertscope: {table}, line 10: spans: must be a list: [[0, 5], [24, 30]]\n",
    )
    code, out, err = command("--output", str(output))
    assert (code, out) == (1, "") and err.startswith("bertscope: line 8") and not output.exists()
    code, out, err = command("--unit", "span", "--output", str(output), "--skip-broken", "--dtype", "bfloat16")
    assert (code, len(err.splitlines())) == (0, 2), err
    assert out.startswith(f"wrote {output}: 596 rows of 298 texts, 2 layers of 32 numbers, float32, ")
    assert "; left out 2 texts\n" in out
    with bertscope.Client(host.target) as client:
        marked = bertscope.StatesInput("The cat 299 sat.", [(0, 3), (4, 7)])
        (last,) = client.extract_hidden_states([marked], model="bert", layers=[4, 0], unit="span", dtype="bfloat16")
    written = np.load(output)
    assert written.shape == (596, 2, 32)
    np.testing.assert_allclose(written[-2:], last.states.transpose(1, 0, 2), atol=1e-2)
    last_row = {"index": 595, "line": 300, "row": 1, "token": "cat", "segment": 0, "start": 4, "end": 7}
    assert json.loads(output.with_name("out.npy.jsonl").read_text().splitlines()[-1]) == last_row
    assert command("--output", str(output))[2] == (
        f"bertscope: {output} exists; put another in its place by --replace, or write to another file\n"
    )


def test_the_command_shows_texts(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["states", "--target", host.target, "--model", "bert"]
    assert run([*asked, "The cat.", "--pair", "A dog.", "--layers", "0,4"]) == 0
    out = capsys.readouterr().out
    assert "The cat. | A dog." in out and "states [2, 9, 32] float32" in out
    assert run([*asked, "The cat.", "--unit", "text", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert np.array(document["results"][0]["states"]).shape == (5, 1, 32)
    assert document["provenance"]["model"] == "models/bert"
    treebank, output = tmp_path / "a.conllu", tmp_path / "out.safetensors"
    word = "1\tCats\tcat\tNOUN\t_\t_\t0\troot\t_\tSpaceAfter=No\n2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n\n"
    treebank.write_text(f"# text = Cats!\n{word}" * 2)
    assert run([*asked, "--texts", str(treebank), "--output", str(output), "--unit", "word"]) == 0
    assert "8 rows of 2 texts, 5 layers of 32 numbers" in capsys.readouterr().out


def test_quantities(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with bertscope.Client(host.target) as client:
        (contexts,) = client.extract_hidden_states("The cat sat.", model="bert", layers=[3, 0], quantity="head_contexts")
        (text,) = client.extract_hidden_states("The cat sat.", model="bert", unit="text", quantity="feed_forward_activations")
        with pytest.raises(bertscope.InvalidArgument, match="layers 0 to 3"):
            list(client.extract_hidden_states("The cat sat.", model="bert", layers=4, quantity="head_contexts"))
        with pytest.raises(bertscope.InvalidArgument, match="quantity"):
            workbench.write_states(
                tmp_path / "a.npy", ["a"], client.extract_hidden_states, options={"quantity": "head_contexts"}
            )
    assert (contexts.states.shape, contexts.layers, contexts.quantity) == ((2, 6, 4, 8), (3, 0), "head_contexts")
    assert contexts.layer(0).shape == (6, 4, 8)
    assert (text.states.shape, text.layers) == ((4, 1, 48), (0, 1, 2, 3))
    asked = ["states", "The cat sat.", "--target", host.target, "--model", "bert", "--quantity", "head_contexts"]
    assert run(asked) == 0
    assert "head contexts [4, 6, 4, 8] float32" in capsys.readouterr().out
    assert run([*asked, "--output", str(tmp_path / "a.npy")]) == 2
    assert "hidden states alone" in capsys.readouterr().err


def test_activations_by_onnx_runtime(launch: Callable[..., Host]) -> None:
    host = launch(runtime="onnx")
    with bertscope.Client(host.target) as client:
        (contexts,) = client.extract_hidden_states("The cat sat.", quantity="head_contexts")
        assert contexts.states.shape == (4, 6, 4, 8)
        with pytest.raises(bertscope.Unimplemented, match="runtime torch"):
            list(client.extract_hidden_states("The cat sat.", quantity="feed_forward_activations"))
