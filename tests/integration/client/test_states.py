"""`extract_hidden_states` of both clients."""

import json
from pathlib import Path

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.command.app import run

from tests.support.harness import Host

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
    with pytest.raises(KeyError, match="layer 1"):
        contexts.layer(1)
    assert (text.states.shape, text.layers) == ((4, 1, 48), (0, 1, 2, 3))
    asked = ["states", "The cat sat.", "--target", host.target, "--model", "bert", "--quantity", "head_contexts"]
    assert run(asked) == 0
    assert "head contexts [4, 6, 4, 8] float32" in capsys.readouterr().out
    assert run([*asked, "--output", str(tmp_path / "a.npy")]) == 2
    assert "--output does not go with --quantity" in capsys.readouterr().err
