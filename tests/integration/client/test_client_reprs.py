"""Results of a real server show their numbers at a prompt and in a notebook: the best rows, and how many more there are."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import bertscope
import pytest
from bertscope.values.display import BEST_ROWS, ShownAsTable

from tests.support.harness import Host

TEXTS = ["The cat sat on the mat.", "Dogs bark, cats do not.", "It is late."] * 5
LINKED = [bertscope.RelationText("The cat sat", [("subject", 1, 2)], [(0, 3), (4, 7), (8, 11)])] * 6
LABELLED = [bertscope.ProbeText("the cat sat down", [("noun", 4, 7), ("verb", 8, 11)])] * 12

Ask = Callable[[bertscope.Client], Any]
RESULTS: dict[str, Ask] = {
    "AttentionDescription": lambda client: client.describe_attention(TEXTS, model="bert"),
    "RelationScores": lambda client: client.score_relations(LINKED, model="bert"),
    "RelationScore": lambda client: client.score_relations(LINKED, model="bert")["subject"],
    "AttentionComparison": lambda client: client.compare_attention(TEXTS, model="bert", interventions=bertscope.zero(0, 1)),
    "GeometryDescription": lambda client: client.describe_geometry(TEXTS, model="bert"),
    "RepresentationComparison": lambda client: client.compare_representations(TEXTS, model="bert"),
    "SweepTable": lambda client: client.sweep_heads(bertscope.MaskedLmLoss(TEXTS), model="bert").table(),
    "HeadRanking": lambda client: client.rank_heads(bertscope.MaskedLmLoss(TEXTS), model="bert"),
    "HiddenStates": lambda client: next(client.extract_hidden_states(TEXTS[:1], model="bert")),
    "AttentionMaps": lambda client: next(client.extract_attention(TEXTS[:1], model="bert")),
    "FilledTexts": lambda client: client.fill_mask(["The [MASK] sat."] * 30, model="bert"),
    "FilledText": lambda client: client.fill_mask("The [MASK] sat.", model="bert")[0],
    "ScoredTexts": lambda client: client.score_texts(TEXTS, model="bert"),
    "ScoredText": lambda client: client.score_texts(TEXTS, model="bert")[0],
    "TextComparison": lambda client: client.compare_texts([("The cat sat.", "The cat sit.")] * 3, model="bert"),
    "WordAttributions": lambda client: client.attribute_words(["The cat [MASK]."], bertscope.Answer("the", "a"), model="bert"),
    "LensTexts": lambda client: client.read_layers(["The cat [MASK]."], model="bert"),
    "ProbeResult": lambda client: client.train_probe(LABELLED, test=LABELLED[:3], model="bert", max_epochs=3),
    "Models": lambda client: client.list_models(),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_numbers_in_a_few_lines(host: Host, name: str) -> None:
    with bertscope.Client(host.target) as client:
        found = RESULTS[name](client)
    shown = repr(found)
    assert type(found).__name__ == name
    assert name in shown
    assert len(shown.splitlines()) <= 15, shown
    assert max(map(len, shown.splitlines())) <= 120, shown
    assert re.search(r"\d", shown.replace(name, "")), shown
    if not isinstance(found, tuple) and isinstance(found, ShownAsTable) and len(found.to_pandas()) > BEST_ROWS:
        assert f"{len(found.to_pandas()) - BEST_ROWS} more rows" in shown
        assert "more rows" in (found._repr_html_() or "")
