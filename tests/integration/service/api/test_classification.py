"""Classify, PredictValues and ClassifyTokens through gRPC give what transformers gives; others refuse by name."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
import torch
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import common_pb2 as common
from numpy.typing import NDArray
from transformers import AutoModelForSequenceClassification, AutoModelForTokenClassification, AutoTokenizer, pipeline

from tests.support.calls import call, refusal
from tests.support.harness import CALL_SECONDS, Host, LoopThread, launched
from tests.support.plain import Plain
from tests.support.sweeps import text_input
from tests.support.tiny import ARCHITECTURES, LABELS, SENTENCES, write_checkpoint

INPUTS = (
    *((text, None) for text in SENTENCES),
    ("Is it raining?", "It isn't raining, and it wasn't raining when they left the city."),
    ("The cat sat.", "The cat sat."),
    ("a", None),
)


@pytest.fixture(scope="module", params=ARCHITECTURES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier of an architecture, of three labels."""
    return write_checkpoint(name, tmp_path_factory.mktemp("classifiers") / name, labels=3)


@pytest.fixture(scope="module")
def zoo(loop: LoopThread, name: str, folder: Path) -> Iterator[Host]:
    with launched(loop, model=[f"{name}={folder}"]) as running:
        yield running


@pytest.fixture(scope="module")
def plain(folder: Path) -> Plain:
    return Plain(folder, AutoModelForSequenceClassification)


def classified(host: Host, inputs: Any, **fields: Any) -> Any:
    return call(host, "Classify", inputs=[text_input(text, pair) for text, pair in inputs], **fields)


def logits_of(results: Any) -> NDArray[np.float64]:
    return np.array([[label.logit for label in sorted(result.labels, key=lambda label: label.index)] for result in results])


@pytest.mark.slow
def test_texts_and_pairs_of_mixed_length_together_and_alone(zoo: Host, name: str, plain: Plain) -> None:
    logits = np.stack([plain.logits(*given) for given in INPUTS])
    reply = classified(zoo, INPUTS)
    assert reply.provenance.model == f"models/{name}"
    assert reply.provenance.weights_digest.startswith("sha256:")
    np.testing.assert_allclose(logits_of(reply.results), logits, atol=2e-5)
    np.testing.assert_allclose(logits_of([classified(zoo, [one]).results[0] for one in INPUTS]), logits, atol=2e-5)
    probabilities = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    for result, expected in zip(reply.results, probabilities, strict=True):
        assert [label.index for label in result.labels] == np.argsort(-expected).tolist()
        assert [label.label for label in result.labels] == [LABELS[label.index] for label in result.labels]
        np.testing.assert_allclose([label.probability for label in result.labels], sorted(expected)[::-1], atol=1e-5)
        assert sum(label.probability for label in result.labels) == pytest.approx(1)
        assert result.truncated_tokens == 0
    assert np.ptp(logits, axis=0).max() > 0.1


@pytest.mark.slow
def test_a_long_text_is_cut_only_when_asked(zoo: Host, plain: Plain) -> None:
    text = " ".join(SENTENCES)
    (found,) = classified(zoo, [(text, None)], truncate=True).results
    cut = plain.model(**plain.encode(text, truncation=True, max_length=64)).logits
    np.testing.assert_allclose(logits_of([found]), cut.detach().numpy(), atol=2e-5)
    assert found.tokens == 64
    assert found.tokens + found.truncated_tokens == len(plain.tokenizer(text)["input_ids"])
    failure = refusal(zoo, "Classify", inputs=[text_input("a"), text_input(text)])
    assert failure.fields == ["inputs[1]"]
    assert "truncate" in failure.message


@pytest.mark.parametrize("name", ["bert"], indirect=True)
def test_a_text_without_a_token_is_refused(zoo: Host) -> None:
    failure = refusal(zoo, "Classify", inputs=[text_input("a"), text_input("\u200b")])
    assert (failure.fields, failure.info.reason) == (["inputs[1].text"], "EMPTY_TEXT")


MIXED = (
    *((given_text, None) for given_text in SENTENCES[:6]),
    ("Is it raining?", "The cat sat."),
    ("a", None),
    ("The cat sat.", "a"),
)
ZEROED = [common.HeadIntervention(layer=1, heads=[1], mode=common.HeadIntervention.MODE_ZERO)]


def by_transformers(source: Path, *, zeroed: bool) -> NDArray[np.float64]:
    """Returns logits, one input at a time [inputs, scores]; a zeroed head is the columns of the projection that read it."""
    plain = Plain(source, AutoModelForSequenceClassification)
    if zeroed:
        plain.zero(1, 1)
    return np.stack([plain.logits(*given) for given in MIXED])


def ask(host: Host, rpc: str, model: str, inputs: Any = MIXED, **fields: Any) -> Any:
    return call(host, rpc, model=f"models/{model}", inputs=[text_input(*given) for given in inputs], **fields)


@pytest.mark.parametrize("zeroed", [False, True])
def test_values_are_those_of_transformers(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["rater"], zeroed=zeroed)[:, 0]
    reply = ask(lab, "PredictValues", "rater", interventions=ZEROED * zeroed)
    assert reply.provenance.model == "models/rater"
    np.testing.assert_allclose([one.value for one in reply.results], expected, atol=2e-5)
    alone = [ask(lab, "PredictValues", "rater", [one], interventions=ZEROED * zeroed).results[0].value for one in MIXED]
    np.testing.assert_allclose(alone, expected, atol=2e-5)
    assert np.ptp(expected) > 0.01
    tokenizer = AutoTokenizer.from_pretrained(sorters["rater"])
    assert [one.tokens for one in reply.results] == [
        len(tokenizer(given_text, pair)["input_ids"]) for given_text, pair in MIXED
    ]


@pytest.mark.slow
@pytest.mark.parametrize("zeroed", [False, True])
def test_each_label_has_its_own_probability(lab: Host, sorters: dict[str, Path], zeroed: bool) -> None:
    expected = by_transformers(sorters["topics"], zeroed=zeroed)
    reply = ask(lab, "Classify", "topics", interventions=ZEROED * zeroed)
    assert reply.multi_label
    for result, logits in zip(reply.results, expected, strict=True):
        order = np.argsort(-logits)
        assert [label.index for label in result.labels] == order.tolist()
        assert [label.label for label in result.labels] == [LABELS[index] for index in order]
        np.testing.assert_allclose([label.logit for label in result.labels], logits[order], atol=2e-5)
        own = torch.from_numpy(logits[order]).sigmoid().numpy()
        np.testing.assert_allclose([label.probability for label in result.labels], own, atol=1e-5)
    assert not ask(lab, "Classify", "sorter").multi_label


def test_the_client_ranks_candidates(lab: Host) -> None:
    query, candidates = "Is it raining?", ["The cat sat.", "It was raining when they left the city.", "a", "The cat sat."]
    with bertscope.Client(lab.target) as client:
        values = [one.value for one in ask(lab, "PredictValues", "rater", [(query, one) for one in candidates]).results]
        ranked = workbench.rank_candidates(client, query, iter(candidates), model="rater")
        assert [one.index for one in ranked] == sorted(range(4), key=lambda index: -values[index])
        assert [one.candidate for one in ranked] == [candidates[one.index] for one in ranked]
        assert [one.value for one in ranked] == pytest.approx(sorted(values, reverse=True), abs=1e-5)
        with pytest.raises(bertscope.InvalidArgument, match="at least one"):
            workbench.rank_candidates(client, query, [], model="rater")
        with pytest.raises(bertscope.InvalidArgument, match="query"):
            workbench.rank_candidates(client, 3, candidates, model="rater")  # type: ignore[arg-type]
        assert client.classify("a", model="topics")[0].multi_label
        assert client.predict_values(("a", "b"), model="rater")[0].text_pair == "b"


TAGGED = [*SENTENCES[:9], "a"]


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
        reply = tag(lab, TAGGED, interventions=interventions)
        assert reply.scheme == classification.LABEL_SCHEME_IOB
        assert reply.provenance.model == "models/tagger"
        for text, result in zip(TAGGED, reply.results, strict=True):
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
