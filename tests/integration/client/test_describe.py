"""`bertscope attention describe` and `models` against a server on a socket."""

import csv
import json
import re
from pathlib import Path
from typing import Any

from tests.support.fake_server import FakeServer


def test_the_command_prints_statistics_and_classes(command: Any, server: FakeServer, stored) -> None:
    code, out, err = command("attention", "describe", "One text.", "Another.", "--layer", "0,1,2", "--punctuation", "!")
    assert (code, err) == (0, "")
    stored(printed=out, requests=server.requests)


def test_the_command_puts_several_models_into_one_table(command: Any, server: FakeServer, tmp_path: Path) -> None:
    file = tmp_path / "heads.csv"
    code, out, err = command("attention", "models", "a b", "--model", "one", "--model", "two", "--output", file)
    assert (code, err) == (0, "")
    assert [request.model for request in server.requests] == ["models/one", "models/two"]
    heads = re.search(r"statistic +(.+)", out)
    assert heads is not None and heads[1].split() == ["one", "two"]
    with file.open() as rows:
        models = [row["model"] for row in csv.DictReader(rows)]
    assert models == sorted(models) and set(models) == {"one", "two"} and models.count("one") == models.count("two")
    code, out, err = command("attention", "models", "a b", "--model", "one", "--model", "two", "--json")
    assert len(json.loads(out)["models"]) == 2


def test_the_command_reads_lines_pairs_and_files(command: Any, server: FakeServer, tmp_path: Path) -> None:
    assert command("attention", "describe", stdin=b"One.\n\nTwo.\n")[0] == 0
    assert [each.text for each in server.requests[-1].inputs] == ["One.", "Two."]
    assert command("attention", "describe", "One.", "--pair", "Two.")[0] == 0
    assert server.requests[-1].inputs[0].text_pair == "Two."
    table = tmp_path / "pairs.tsv"
    table.write_text("sentence1\ttext_pair\na\tb\nc\td\n", encoding="utf-8")
    assert command("attention", "describe", "--texts", str(table), "--columns", "text=sentence1", "--limit", "1")[0] == 0
    assert [(each.text, each.text_pair) for each in server.requests[-1].inputs] == [("a", "b")]
    treebank = tmp_path / "some.conllu"
    row = "1\tGo\tgo\tVERB\t_\t_\t0\troot\t_\tSpaceAfter=No\n2\t!\t!\tPUNCT\t_\t_\t1\tpunct\t_\t_\n"
    treebank.write_text(f"{row}\n1\tbroken\n\n{row}\n", encoding="utf-8")
    code, out, _ = command("attention", "describe", "--texts", str(treebank))
    assert code == 0
    assert [each.text for each in server.requests[-1].inputs] == ["Go!", "Go!"]
    assert "left out: 1 text" in out
    assert "some.conllu, line 4: has 2 of the 10 columns" in out
