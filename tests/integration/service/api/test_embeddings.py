"""EmbedTexts: vectors equal those of transformers' states, joined by formulas that are written out here."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.questions.representations.embeddings import read_embedded_texts
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_states_pb2 as states
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from tests.support.declared import declare
from tests.support.harness import Host

TEXTS = ["The cat sat.", "The nurse told the doctor that her patient had been waiting.", "A café in Zürich."]
JOINED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "mean": lambda tokens: tokens.mean(dim=0),
    "first": lambda tokens: tokens[0],
    "last": lambda tokens: tokens[-1],
    "max": lambda tokens: tokens.max(dim=0).values,
}


@torch.no_grad()
def reference(folder: Path, texts: list[str], pooling: str) -> NDArray[np.float64]:
    """Each text alone, so that no padding can matter. [texts, size]"""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval().double()
    found = [model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0] for text in texts]
    return torch.stack([JOINED[pooling](tokens) for tokens in found]).numpy()


def lengths(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    return np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "pooling"),
    [("torch", None), *(("torch", pooling) for pooling in JOINED), pytest.param("onnx", "max", marks=pytest.mark.slow)],
)
def test_vectors_are_those_of_transformers(
    host: Host, launch: Callable[..., Host], checkpoints: dict[str, Path], runtime: str, pooling: Any
) -> None:
    if runtime == "onnx":
        host = launch(model=[f"bert={checkpoints['bert']}"], runtime=runtime)
    right = reference(checkpoints["bert"], TEXTS, pooling or "mean")
    with bertscope.Client(host.target) as client:
        found = client.embed_texts(TEXTS, pooling=pooling)
        np.testing.assert_allclose(found.vectors, right, atol=1e-5)
        assert {(one.pooling, one.normalized, one.truncated_tokens) for one in found} == {(pooling or "mean", False, 0)}
        unit = client.embed_texts(TEXTS, pooling=pooling, normalize=True)
        np.testing.assert_allclose(unit.vectors, right / lengths(right), atol=1e-5)
        alone = client.embed_texts(TEXTS[2], pooling=pooling)
        np.testing.assert_allclose(alone.vectors[0], found.vectors[2], atol=1e-5)


@pytest.mark.slow
def test_a_declared_pooling_is_the_default(launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "The song: "}, "default_prompt_name": "query"}
    folder = declare(checkpoints["bert"], tmp_path / "declared", {"pooling_mode": "mean"}, config_sentence_transformers=prompts)
    host = launch(model=[f"declared={folder}"])
    right = reference(folder, [f"The song: {text}" for text in TEXTS], "mean")
    with bertscope.Client(host.target) as client:
        found = client.embed_texts(TEXTS)
        assert {(one.pooling, one.normalized) for one in found} == {("declared", True)}
        np.testing.assert_allclose(found.vectors, right / lengths(right), atol=1e-5)
        np.testing.assert_allclose(client.embed_texts(TEXTS, normalize=False).vectors, right, atol=1e-5)
        plain = client.embed_texts(TEXTS, pooling="mean").vectors
        np.testing.assert_allclose(plain, reference(folder, TEXTS, "mean"), atol=1e-5)
        with pytest.raises(bertscope.InvalidArgument, match="prompt is that of single texts") as caught:
            client.embed_texts([("a", "b")])
        assert caught.value.reason == "PROMPT_OF_PAIR"


def test_heads_can_be_changed_and_any_number_of_texts_be_asked(client: bertscope.Client) -> None:
    texts = [f"{number} {TEXTS[number % 3]}" for number in range(600)]
    found = client.embed_texts(iter(texts))
    assert [one.text for one in found] == texts
    one = client.embed_texts(texts[517], interventions=bertscope.zero(0, [0]))
    assert not np.allclose(one.vectors[0], found.vectors[517])
    rejected: list[int] = []
    rest = [*client.embed_texts_stream(["a", " " * 3, "b"], on_rejected=lambda index, _: rejected.append(index))]
    assert ([one.text for one in rest], rejected) == (["a", "b"], [1])
    assert [*found[:2].to_pandas().columns] == ["text", "text_pair", "vector", "tokens", "truncated_tokens"]
    assert found[0].to_row()["vector"] == found.vectors[0].tolist()


def test_a_reply_with_too_few_vectors_is_an_error() -> None:
    reply = states.EmbedTextsResponse(
        vectors=common_pb2.Tensor(dtype=common_pb2.DATA_TYPE_FLOAT32, shape=[1, 2], data=bytes(8)),
        tokens=[3],
        truncated_tokens=[0],
    )
    inputs = [common_pb2.TextInput(text="a"), common_pb2.TextInput(text="b")]
    with pytest.raises(bertscope.InvalidReply, match="1 vectors of 2 texts"):
        read_embedded_texts(inputs, reply)
    assert read_embedded_texts(inputs[:1], reply)[0].vector.tolist() == [0, 0]
