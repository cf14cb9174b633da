"""The question of the Benchmark view."""

import json

import pytest


@pytest.mark.slow
def test_two_models_are_measured(page):
    body = {"models": ["bert", "roberta"], "lengths": [8], "min_seconds": 0.05, "agreement_texts": []}
    *progress, last = page.ask("benchmark", body)
    shares = [event["progress"]["done"] for event in progress]
    assert shares == sorted(shares)
    report = last["report"]
    assert [model["provenance"]["model"] for model in report["models"]] == ["models/bert", "models/roberta"]
    assert report["models"][0]["speeds"][0]["latency_speedup"] is None
    assert report["models"][1]["speeds"][0]["latency_speedup"]["value"] > 0
    assert json.dumps(last, allow_nan=False)
