"""`attribute_words` of both clients, and `bertscope attribute`, on a real server."""

import asyncio
import json
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.attribution import inputs
from bertscope.rpc import pacing
from bertscope_workbench.command.app import run

from tests.support.harness import Host

TARGET = bertscope.Answer("old", "young")
LONG = "The keys to the cabinet that the man saw are [MASK] and the dog walked to the market."
TEXTS = ["The man was [MASK].", LONG, ("The cat [MASK].", "A dog, too."), LONG, LONG, "She was [MASK]."]


@pytest.mark.slow
def test_both_clients_and_every_way_give_the_same(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one call, from a generator, and in calls of one pair of orders."""
    with bertscope.Client(host.target) as client:
        found = client.attribute_words(TEXTS, TARGET, pairs=6)
        monkeypatch.setattr(pacing, "FIRST_WORK", 0.0)
        monkeypatch.setattr(inputs, "PART_WORK", 0.0)
        divided = client.attribute_words(TEXTS, TARGET, pairs=6)
        streamed = list(client.attribute_words_stream((text for text in TEXTS), [TARGET] * len(TEXTS), pairs=6))

    async def ask() -> bertscope.WordAttributions:
        async with bertscope.AsyncClient(host.target) as client:
            return await client.attribute_words(TEXTS, TARGET, pairs=6)

    for other in (divided, streamed, asyncio.run(ask())):
        assert [each.text for each in other] == TEXTS
        for one, same in zip(other, found, strict=True):
            np.testing.assert_allclose(one.values, same.values, atol=1e-4)
            assert (one.pairs, one.sampled, one.words) == (same.pairs, same.sampled, same.words)
    assert [each.pairs for each in found] == [0, 6, 0, 6, 6, 0]
    for each in found:
        assert each.values.sum() == pytest.approx(each.value - each.value_absent, abs=1e-4)
    assert (found[1].interval() is None, found[0].interval()) == (False, None)


def test_rows_go_on_where_they_ended(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    path, output, cut = tmp_path / "items.csv", tmp_path / "rows.jsonl", tmp_path / "cut.jsonl"
    path.write_text("text,answer,other\nThe man was [MASK].,old,young\nShe was [MASK].,young,old\n", encoding="utf-8")
    asked = ["attribute", "--texts", str(path), "--method", "occlusion", "--output"]
    assert run([*asked, str(output)]) == 0
    rows = [json.loads(line) for line in output.read_text(encoding="utf-8").splitlines()]
    assert [row["target"] for row in rows] == [
        f'logit of "{one}" minus that of "{other}"' for one, other in (("old", "young"), ("young", "old"))
    ]
    assert rows[0]["words"] == ["The", "man", "was", "."]
    assert sum(rows[0]["values"]) + rows[0]["rest"] == pytest.approx(rows[0]["value"] - rows[0]["value_absent"])
    cut.write_text(output.read_text(encoding="utf-8").splitlines(keepends=True)[0], encoding="utf-8")
    assert run([*asked, str(cut), "--resume"]) == 0
    assert cut.read_bytes() == output.read_bytes()
    assert run([*asked, str(cut), "--resume", "--pieces"]) == 1
    assert "the option unit was" in capsys.readouterr().err


def test_the_command_prints_words_and_draws_them(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    figure = tmp_path / "words.svg"
    asked = ["attribute", TEXTS[0], "--answer", "old", "--other", "young", "--interactions", "--plot", str(figure)]
    assert run(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'logit of "old" minus that of "young"'
    assert lines[1].split() == ["The", "man", "was", "[MASK]", "."]
    assert len(lines[2].split()) == 4
    assert all(number[0] in "+-" for number in lines[2].split())
    assert lines[3].endswith("(16 texts)")
    assert f"wrote {figure}" in lines
    assert figure.stat().st_size > 1000
    assert run([*asked[:6], "--json"]) == 0
    (document,) = json.loads(capsys.readouterr().out)["results"]
    assert [word["word"] for word in document["words"]] == ["The", "man", "was", "."]
