"""`describe_attention` and `bertscope attention --describe`: any number of texts, one description, nothing lost silently."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import bertscope
import pytest

from tests.support.fake_server import FakeServer, refuse_field


def too_long(request: Any, context: Any) -> None:
    """Rejects the first text of a call that is longer than 40 characters, as a server does."""
    for index, each in enumerate(request.inputs):
        if len(each.text) > 40:
            refuse_field(
                context,
                f"inputs[{index}].text",
                "has 99 tokens and the model reads 9; shorten it, or set truncate",
                "TEXT_TOO_LONG",
            )


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 9, 300])
@pytest.mark.parametrize("place", [-1, None])
def test_texts_that_are_rejected_are_told_and_left_out(server: FakeServer, count: int, place: int | None) -> None:
    server.judge = too_long
    texts = [f"Text {index}." for index in range(count)]
    long = {count // 2, 0} if place is None else {range(count)[place]}
    for index in long:
        texts[index] = "long " * 20
    rejected: dict[int, bertscope.InvalidArgument] = {}
    with bertscope.Client(server.target) as client:
        if len(long) == count:
            with pytest.raises(bertscope.InvalidArgument, match="every text was rejected"):
                client.describe_attention(texts, on_rejected=rejected.__setitem__)
        else:
            assert client.describe_attention(texts, on_rejected=rejected.__setitem__).texts == count - len(long)
        assert set(rejected) == long
        assert all(error.reason == "TEXT_TOO_LONG" for error in rejected.values())
        assert rejected[max(long)].field_violations[0].field == f"inputs[{max(long)}].text"
        with pytest.raises(bertscope.InvalidArgument, match="has 99 tokens"):
            client.describe_attention(texts)


def test_the_command_prints_statistics_and_classes(command: Any, server: FakeServer, stored) -> None:
    code, out, err = command("attention", "--describe", "One text.", "Another.", "--layer", "0,1,2", "--punctuation", "!")
    assert (code, err) == (0, "")
    stored(printed=out, requests=server.requests)


def test_the_command_puts_several_models_into_one_table(command: Any, server: FakeServer, tmp_path: Path) -> None:
    file = tmp_path / "heads.csv"
    code, out, err = command("attention", "--describe", "a b", "--model", "one", "--model", "two", "--output", file)
    assert (code, err) == (0, "")
    assert [request.model for request in server.requests] == ["models/one", "models/two"]
    heads = re.search(r"statistic +(.+)", out)
    assert heads is not None and heads[1].split() == ["one", "two"]
    with file.open() as rows:
        models = [row["model"] for row in csv.DictReader(rows)]
    assert models == sorted(models) and set(models) == {"one", "two"} and models.count("one") == models.count("two")
    code, out, err = command("attention", "--describe", "a b", "--model", "one", "--model", "two", "--json")
    assert len(json.loads(out)["models"]) == 2


def test_the_command_reads_lines_pairs_and_files(command: Any, server: FakeServer, tmp_path: Path) -> None:
    assert command("attention", "--describe", stdin=b"One.\n\nTwo.\n")[0] == 0
    assert [each.text for each in server.requests[-1].inputs] == ["One.", "Two."]
    assert command("attention", "--describe", "One.", "--pair", "Two.")[0] == 0
    assert server.requests[-1].inputs[0].text_pair == "Two."
    table = tmp_path / "pairs.tsv"
    table.write_text("sentence1\ttext_pair\na\tb\nc\td\n", encoding="utf-8")
    assert command("attention", "--describe", "--texts", str(table), "--columns", "text=sentence1", "--limit", "1")[0] == 0
    assert [(each.text, each.text_pair) for each in server.requests[-1].inputs] == [("a", "b")]
    treebank = tmp_path / "some.conllu"
    row = "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n"
    treebank.write_text(f"{row}\n1\tbroken\n\n{row}\n", encoding="utf-8")
    code, out, _ = command("attention", "--describe", "--texts", str(treebank))
    assert code == 0
    assert [each.text for each in server.requests[-1].inputs] == ["Go!", "Go!"]
    assert "left out: 1 text" in out
    assert "some.conllu, line 4: has 2 of the 10 columns" in out
