"""ClassifyTokens through gRPC gives what transformers' own pipeline gives; what it can't answer, it refuses by name."""

from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2 as common
from transformers import AutoModelForTokenClassification, AutoTokenizer, pipeline

from tests.support.harness import CALL_SECONDS, Host
from tests.support.sweeps import text_input
from tests.support.tiny import SENTENCES

TEXTS = [*SENTENCES[:9], "a"]


def tag(host: Host, texts: Any, **fields: Any) -> classification.ClassifyTokensResponse:
    inputs = [classification.TaggedInput(input=text_input(text)) for text in texts]
    request = classification.ClassifyTokensRequest(**{"model": "models/tagger", "inputs": inputs} | fields)
    return host.classification.ClassifyTokens(request, timeout=CALL_SECONDS)


def test_mentions_are_those_of_transformers(lab: Host, sorters: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Zeroed heads are the columns of the output projection that read them."""
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "false")  # or its pipelines set it
    reference = AutoModelForTokenClassification.from_pretrained(sorters["tagger"], attn_implementation="eager").eval()
    found = 0
    for zeroed in (False, True):
        interventions = [common.HeadIntervention(layer=1, heads=[1], mode=common.HeadIntervention.MODE_ZERO)] * zeroed
        if zeroed:
            with torch.no_grad():
                reference.bert.encoder.layer[1].attention.output.dense.weight[:, 8:16] = 0
        tokenizer = AutoTokenizer.from_pretrained(sorters["tagger"])
        read = pipeline("token-classification", reference, tokenizer=tokenizer, aggregation_strategy="first", device="cpu")
        reply = tag(lab, TEXTS, interventions=interventions)
        assert reply.scheme == classification.LABEL_SCHEME_IOB
        assert reply.provenance.model == "models/tagger"
        for text, result in zip(TEXTS, reply.results, strict=True):
            expected = [one for one in read(text) if one["entity_group"] != "O"]
            found += len(expected)
            own = [(one.type, one.span.start, one.span.end) for one in result.mentions]
            assert own == [(one["entity_group"], one["start"], one["end"]) for one in expected]
            shares = [one.probability for one in result.mentions]
            np.testing.assert_allclose(shares, [float(one["score"]) for one in expected], atol=1e-5)
    assert found > 10


def test_the_client(lab: Host) -> None:
    with bertscope.Client(lab.target) as client:
        pair = ("Paris is old.", "The cat sat.")
        first, second = client.classify_tokens(
            [pair, bertscope.UnlabelledText("The cat sat.", [(4, 7)])], model="tagger", top_k=2
        )
        assert (first.text, first.text_pair, first.scheme) == (*pair, "iob")
        assert [word.text for word in first.words] == ["Paris", "is", "old", ".", "The", "cat", "sat", "."]
        assert {word.segment for word in first.words} == {0, 1}
        (word,) = second.words
        assert (word.text, word.start, word.end, len(word.labels)) == ("cat", 4, 7, 2)
        assert word.label == word.labels[0].label
        assert len(client.classify_tokens(iter([pair]), model="tagger")[0].to_pandas()) == 8
        (alone,) = client.classify_tokens("The cat sat.", model="tagger")
        label = alone.words[1].labels[0]
        assert (label.label, label.logit) == (word.label, pytest.approx(word.labels[0].logit, abs=1e-5))
        with pytest.raises(bertscope.Unimplemented):
            client.classify_tokens("The cat sat.", model="sorter")
