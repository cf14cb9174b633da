"""`compare_attention` and `bertscope attention --compare`: any number of texts, one comparison, the same as of one call."""

import json
from pathlib import Path

import bertscope
import numpy as np
import pandas
import pytest
from bertscope.questions.attention.description import STATISTICS
from bertscope_workbench.command.app import run

from tests.support.harness import Host

TEXTS = ["The cat sat on the mat.", "Dogs bark, cats do not.", "Nobody waited.", ("A pair?", "Yes, a pair."), "It is late."]


def test_calls_of_a_real_server_add_up_to_one(host: Host) -> None:
    heard: list[bertscope.TextsProgress] = []
    with bertscope.Client(host.target) as client:
        whole = client.compare_attention(TEXTS, "headless", on_progress=heard.append)
        parts = [client.compare_attention([text], "headless") for text in TEXTS]
        first, second = (client.describe_attention(TEXTS, model=name) for name in ("bert", "headless"))
    merged = bertscope.AttentionComparison.merge(parts)
    assert (whole.texts, whole.tokens, whole.truncated_texts) == (merged.texts, merged.tokens, 0) == (5, first.tokens, 0)
    assert (whole.provenance.model, whole.other_provenance.model) == ("models/bert", "models/headless")
    assert list(whole.differences) == list(merged.differences) == list(STATISTICS)
    assert [event.done for event in heard] == [5]
    np.testing.assert_allclose(whole.cosine.mean(), merged.cosine.mean(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(whole.divergence.standard_error(), merged.divergence.standard_error(), rtol=0, atol=1e-5)
    for name in STATISTICS:
        np.testing.assert_allclose(whole.difference(name), second.mean(name) - first.mean(name), rtol=0, atol=1e-5)
    with pytest.raises(KeyError, match="no text has the statistic 'other_text'"):
        parts[0].difference("other_text")
    sizes = f"4 x 4 heads, 5 texts, {first.tokens} tokens"
    assert repr(whole).splitlines()[0] == f"<AttentionComparison: {sizes}, models/bert and models/headless>"


def test_the_command_prints_draws_and_writes(
    host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    picture, heads = tmp_path / "heads.png", tmp_path / "heads.csv"
    options = ["--compare", "headless", "--plot", str(picture), "--output", str(heads)]
    assert run(["attention", "The cat sat.", "Nobody waited.", *options]) == 0
    printed = capsys.readouterr().out
    for words in (
        "2 texts",
        "models/bert and models/headless",
        "cosine of the maps of each head",
        "divergence",
        f"wrote {picture}",
    ):
        assert words in printed.replace("\n", " ") or words.startswith("wrote")
    assert picture.read_bytes().startswith(b"\x89PNG")
    table = pandas.read_csv(heads)
    assert table.shape == (16, 3 + 2 * (2 + len(STATISTICS) - 1))  # single texts have no other text
    assert table.cosine.between(0, 1).all()
    assert run(["attention", "The cat sat.", "--compare", "bert", "--zero", "0"]) == 0
    assert "models/bert, untouched and under interventions" in capsys.readouterr().out
    assert run(["attention", "The cat sat.", "--compare", "bert", "--zero", "0", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    np.testing.assert_allclose(found["cosine"]["mean"][0], 1, rtol=0, atol=1e-5)
    assert found["other_provenance"]["model"] == "models/bert"
