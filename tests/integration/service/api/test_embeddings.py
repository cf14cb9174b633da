"""EmbedTexts and ExtractHiddenStates of texts: vectors are those of transformers' states, joined by formulas that are written
out here; a declared pooling is what sentence-transformers would make, in float32."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
import torch
from bertscope.questions.representations.states import read_embedded_texts
from bertscope.v1 import common_pb2
from bertscope.v1 import representation_states_pb2 as states
from numpy.typing import NDArray
from transformers import AutoModel, AutoTokenizer

from tests.support.declared import declare
from tests.support.harness import Host

TEXTS = ["The cat sat.", "The nurse told the doctor that her patient had been waiting since 7:45 a.m.", "A café in Zürich."]
NO_MODES = {"pooling_mode_mean_tokens": False}


@torch.no_grad()
def embedded(folder: Path, texts: Sequence[str], modes: str, *, normalised: bool = True, skip: int = 0) -> NDArray[np.float32]:
    """sentence-transformers' Pooling and Normalize, of all texts in one padded batch."""
    batch = AutoTokenizer.from_pretrained(folder)(list(texts), padding=True, return_tensors="pt")
    tokens = AutoModel.from_pretrained(folder).eval()(**batch).last_hidden_state
    last = batch["attention_mask"].sum(1) - 1
    mask = batch["attention_mask"].clone()
    mask[:, :skip] = 0
    mask = mask.unsqueeze(-1).expand(tokens.size()).float()
    weights = torch.arange(1, tokens.shape[1] + 1).unsqueeze(0).unsqueeze(-1).expand(tokens.size()).float()
    vectors = {
        "cls": tokens[:, 0],
        "max": tokens.masked_fill(mask == 0, -1e9).max(1).values,
        "mean": (tokens * mask).sum(1) / mask.sum(1),
        "sqrt": (tokens * mask).sum(1) / mask.sum(1).sqrt(),
        "weighted": (tokens * mask * weights).sum(1) / (mask * weights).sum(1),
        "last": tokens[torch.arange(len(tokens)), last],
    }
    joined = torch.cat([vectors[mode] for mode in modes.split()], dim=1)
    return (torch.nn.functional.normalize(joined, p=2, dim=1) if normalised else joined).numpy()


def ask(host: Host, model: str, texts: Sequence[Any] = TEXTS, **options: Any) -> NDArray[np.float32]:
    """[texts, size]"""
    with bertscope.Client(host.target) as client:
        found = list(client.extract_hidden_states(texts, model=model, unit="text", pooling="declared", **options))
    assert {(text.unit, text.pooling, text.tokens) for text in found} == {("text", "declared", ())}
    return np.concatenate([text.states[0] for text in found])


@pytest.mark.parametrize(
    ("modes", "pooling"),
    [
        ("mean", {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}),
        ("cls", {"pooling_mode": "cls"}),
        ("sqrt", NO_MODES | {"pooling_mode_mean_sqrt_len_tokens": True}),
        ("weighted", NO_MODES | {"pooling_mode_weightedmean_tokens": True}),
        ("last", {"pooling_mode": "lasttoken"}),
        ("cls mean last", {"pooling_mode": ["lasttoken", "mean", "cls"]}),
    ],
)
def test_modes(
    launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path, modes: str, pooling: dict[str, Any]
) -> None:
    plain = not modes.startswith("mean")
    modules = ("Transformer", "Pooling") if plain else ("Transformer", "Pooling", "Normalize")
    folder = declare(checkpoints["bert"], tmp_path / "declared", pooling, modules)
    host = launch(model=[f"declared={folder}"])
    np.testing.assert_allclose(ask(host, "declared"), embedded(folder, TEXTS, modes, normalised=not plain), atol=1e-5)


@pytest.mark.parametrize(("runtime", "pooled"), [("torch", False), pytest.param("onnx", True, marks=pytest.mark.slow)])
def test_a_prompt_and_the_longest_text(
    launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path, runtime: str, pooled: bool
) -> None:
    prompts = {"prompts": {"query": "The song: ", "document": "A "}, "default_prompt_name": "query"}
    folder = declare(
        checkpoints["bert"],
        tmp_path / "declared",
        {"pooling_mode": "mean", "include_prompt": pooled},
        config_sentence_transformers=prompts,
        sentence_bert_config={"max_seq_length": 40},
    )
    host = launch(model=[f"declared={folder}"], runtime=runtime)
    skip = 0 if pooled else len(AutoTokenizer.from_pretrained(folder)("The song: ")["input_ids"]) - 1
    wanted = embedded(folder, [f"The song: {text}" for text in TEXTS], "mean", skip=skip)
    np.testing.assert_allclose(ask(host, "declared"), wanted, atol=1e-5)
    long = "the cat " * 60
    with pytest.raises(bertscope.InvalidArgument, match="the model reads 40"):
        ask(host, "declared", [long])
    np.testing.assert_allclose(
        ask(host, "declared", [long], truncate=True), ask(host, "declared", ["the cat " * 30], truncate=True), atol=1e-6
    )
    with pytest.raises(bertscope.InvalidArgument, match="text_pair"):
        ask(host, "declared", [("a", "b")])


def test_declarations_that_can_not_be_used(launch: Callable[..., Host], checkpoints: dict[str, Path], tmp_path: Path) -> None:
    """Such a model answers all else."""
    whole = ("Transformer", "Pooling")
    broken = declare(checkpoints["bert"], tmp_path / "broken", {})
    (broken / "modules.json").write_text("[")
    folders = {
        "sentence_transformers.models.Dense": declare(checkpoints["bert"], tmp_path / "dense", {}, (*whole, "Dense")),
        "begin with a Transformer": declare(checkpoints["bert"], tmp_path / "bare", {}, ("Transformer",)),
        "'median'": declare(checkpoints["bert"], tmp_path / "median", {"pooling_mode": "median"}),
        "no mode": declare(checkpoints["bert"], tmp_path / "none", NO_MODES),
        "do_lower_case": declare(checkpoints["bert"], tmp_path / "low", {}, sentence_bert_config={"do_lower_case": True}),
        "max_seq_length": declare(checkpoints["bert"], tmp_path / "long", {}, sentence_bert_config={"max_seq_length": "9"}),
        "default_prompt_name": declare(
            checkpoints["bert"], tmp_path / "prompt", {}, config_sentence_transformers={"default_prompt_name": "query"}
        ),
        "read as JSON": broken,
        "its folder has no modules.json": checkpoints["bert"],
    }
    host = launch(model=[f"m{index}={folder}" for index, folder in enumerate(folders.values())])
    with bertscope.Client(host.target) as client:
        for index, words in enumerate(folders):
            with pytest.raises(bertscope.Unimplemented, match="pooling") as caught:
                list(client.extract_hidden_states("a", model=f"m{index}", unit="text", pooling="declared"))
            assert words in str(caught.value)
            assert str(tmp_path) not in str(caught.value)
            assert list(client.extract_hidden_states("a", model=f"m{index}", unit="text"))


POOLINGS = ("mean", "first", "last", "max")


def lengths(vectors: NDArray[np.floating[Any]]) -> NDArray[np.floating[Any]]:
    return np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runtime", "pooling"),
    [("torch", None), *(("torch", pooling) for pooling in POOLINGS), pytest.param("onnx", "max", marks=pytest.mark.slow)],
)
def test_vectors_are_those_of_transformers(
    host: Host, launch: Callable[..., Host], checkpoints: dict[str, Path], runtime: str, pooling: Any
) -> None:
    if runtime == "onnx":
        host = launch(model=[f"bert={checkpoints['bert']}"], runtime=runtime)
    right = embedded(checkpoints["bert"], TEXTS, {"first": "cls"}.get(pooling, pooling or "mean"), normalised=False)
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
    right = embedded(folder, [f"The song: {text}" for text in TEXTS], "mean", normalised=False)
    with bertscope.Client(host.target) as client:
        found = client.embed_texts(TEXTS)
        assert {(one.pooling, one.normalized) for one in found} == {("declared", True)}
        np.testing.assert_allclose(found.vectors, right / lengths(right), atol=1e-5)
        np.testing.assert_allclose(client.embed_texts(TEXTS, normalize=False).vectors, right, atol=1e-5)
        plain = client.embed_texts(TEXTS, pooling="mean").vectors
        np.testing.assert_allclose(plain, embedded(folder, TEXTS, "mean", normalised=False), atol=1e-5)
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
