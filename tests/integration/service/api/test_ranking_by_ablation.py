"""Heads and layers of a model that embeds texts, ranked and pruned by how well its cosines correlate with gold values."""

from collections.abc import Callable
from pathlib import Path

import bertscope
import numpy as np
import pytest
from bertscope import InvalidArgument
from bertscope_workbench.command.app import run
from scipy.stats import spearmanr

from tests.support.harness import Host
from tests.support.sweeps import SIMILAR

PAIRS = [((first, second), value) for first, second, value in SIMILAR]


@pytest.fixture
def host(launch: Callable[..., Host], checkpoints: dict[str, Path]) -> Host:
    return launch(model=[f"headless={checkpoints['headless']}"])


def score(client: bertscope.Client, heads: dict[int, tuple[int, ...]]) -> float:
    """Spearman's correlation by scipy of what EmbedTexts answers without some heads."""
    texts = [text for pair, _ in PAIRS for text in pair]
    changes = [bertscope.zero(layer, numbers) for layer, numbers in heads.items()]
    vectors = client.embed_texts(texts, interventions=changes, normalize=True).vectors.astype(np.float64)
    return float(spearmanr((vectors[0::2] * vectors[1::2]).sum(axis=1), [value for _, value in PAIRS]).statistic)


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["heads", "layers"])
def test_the_order_is_that_of_the_scores_without_each(client: bertscope.Client, scope: bertscope.Scope) -> None:
    with client.sweep_heads(bertscope.SimilarTexts(PAIRS), scope=scope) as sweep:
        table = sweep.table()
    assert table.scope == scope
    found = [effect.metrics["spearman"].score for effect in table.order("spearman")]
    assert found == pytest.approx(sorted(found, reverse=True), abs=1e-9)
    assert found == pytest.approx([score(client, dict(effect.heads)) for effect in table.order("spearman")], abs=1e-3)
    least = table.least(count=1, metric="spearman")
    pruned = client.prune_heads("pruned", least)
    again = client.benchmark_models(
        [pruned], objective=bertscope.SimilarTexts(PAIRS), lengths=[8], batch_sizes=[1], min_runs=3, min_seconds=0
    )
    assert again.models[0].scores[1].value == pytest.approx(found[0], abs=1e-3)


def test_a_ranking_by_gradients_is_refused_in_words(
    host: Host, client: bertscope.Client, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidArgument, match="or call SweepHeads, which ranks by any score") as caught:
        client.rank_heads(bertscope.SimilarTexts(PAIRS))
    assert caught.value.reason == "OBJECTIVE_WITHOUT_LOSS"
    file = tmp_path / "similar.tsv"
    lines = ["text\ttext_pair\tvalue", *(f"{first}\t{second}\t{value}" for (first, second), value in PAIRS)]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    monkeypatch.setenv("BERTSCOPE_TARGET", host.target)
    assert run(["rank", "--similar", str(file)]) == 1
    assert capsys.readouterr().err == "bertscope: --similar has no loss to differentiate: add --ablation\n"
    assert run(["rank", "--similar", str(file), "--ablation", "--metric", "spearman", "--scope", "layers"]) == 0
    assert "least important first, by spearman: " in capsys.readouterr().out
