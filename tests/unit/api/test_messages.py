"""Requests become domain objects or are refused with the field and a remedy; models and pages become replies."""

import asyncio
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope.v1 import inspection_pb2 as inspection
from bertscope.v1 import model_pb2 as model
from bertscope.v1 import representation_states_pb2 as states
from bertscope_service.api.attention import parse_extract_attention
from bertscope_service.api.cloze import parse_fill_mask
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.interventions import check_reference_texts, parse_interventions
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.model_rendering import render_model, render_page, render_progress
from bertscope_service.api.models import load_spec, parse_load
from bertscope_service.api.pages import parse_page
from bertscope_service.api.tensor_chunks import CHUNK_BYTES, TENSOR_FIELD, render_chunks
from bertscope_service.checkpoints.sources import Progress, Stage
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.encoders.base import Capabilities, Shape
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.hosted import HostedModel, ModelState
from bertscope_service.models.loaded import LoadSpec
from bertscope_service.rpc.hosting import parse_model
from bertscope_service.settings import Settings

Intervention = common_pb2.HeadIntervention
SHAPE = Shape("bert", 3, 2, 8, 100, 16, 1000)
LIMITS = RequestLimits(4, 20, 1000, 1_000_000)
SETTINGS = Settings()


def refusal(parse: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(InvalidArgument) as caught:
        parse(*arguments)
    assert caught.value.reason.isupper()
    return caught.value.field, caught.value.message


def fill(**fields: Any) -> Any:
    request = cloze.FillMaskRequest(**fields)
    check_fields(request, LIMITS)
    return parse_fill_mask(request, SHAPE, LIMITS)


def extract(**fields: Any) -> Any:
    fields.setdefault("inputs", [common_pb2.TextInput(text="a")])
    request = attention.ExtractAttentionRequest(**fields)
    check_fields(request, LIMITS)
    return parse_extract_attention(request, SHAPE, "models/m")


def test_fill_mask() -> None:
    query = fill(texts=["a", "b"], top_k=7, truncate=True)
    assert (query.texts, query.top_k, query.candidates, query.truncate) == (("a", "b"), 7, (), True)
    assert fill(texts=["a"]).top_k == 5
    query = fill(texts=["a"], candidates=["x", "X"])
    assert (query.top_k, query.candidates) == (0, ("x", "X"))


def test_five_predictions_of_a_smaller_vocabulary() -> None:
    shape = Shape("bert", 3, 2, 8, 3, 16, 1000)
    assert parse_fill_mask(cloze.FillMaskRequest(texts=["a"]), shape, LIMITS).top_k == 3


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "texts", "give at least one text"),
        ({"texts": ["a"] * 5}, "texts", "takes 4; send them in parts"),
        ({"texts": ["a", "x" * 21]}, "texts[1]", "takes 20; shorten it"),
        ({"texts": ["a", ""]}, "texts[1]", "write some text"),
        ({"texts": ["\u2003\n"]}, "texts[0]", "write some text"),
        ({"texts": ["a"], "top_k": 0}, "top_k", "ask for 1 to 100"),
        ({"texts": ["a"], "top_k": 101}, "top_k", "ask for 1 to 100"),
        ({"texts": ["a"], "top_k": 0, "candidates": ["b"]}, "top_k", "set one of them"),
        ({"texts": ["a"], "candidates": ["b", " "]}, "candidates[1]", "leave it out"),
        ({"texts": ["a"], "candidates": ["b", "c", "b"]}, "candidates[2]", "once"),
        ({"texts": ["a"], "candidates": ["x" * 21]}, "candidates[0]", "shorten it"),
        ({"texts": ["a"], "candidates": ["x"] * 1001}, "candidates", "takes 1000"),
    ],
)
def test_bad_fill_mask(fields: dict[str, Any], field: str, words: str) -> None:
    found, message = refusal(lambda: fill(**fields))
    assert found == field
    assert words in message


def test_extract_attention() -> None:
    query = extract(inputs=[common_pb2.TextInput(text="a", text_pair="b"), common_pb2.TextInput(text="c")])
    assert query.inputs == (("a", "b"), ("c", None))
    assert (query.layers, query.heads, query.dtype, query.words) == ((0, 1, 2), (0, 1), torch.float32, False)
    query = extract(layers=[2, 0], heads=[1], dtype=common_pb2.DATA_TYPE_FLOAT16, level=attention.ATTENTION_LEVEL_WORD)
    assert (query.layers, query.heads, query.dtype, query.words) == ((2, 0), (1,), torch.float16, True)


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({"inputs": []}, "inputs", "give at least one text"),
        ({"inputs": [common_pb2.TextInput()]}, "inputs[0].text", "write some text"),
        ({"inputs": [common_pb2.TextInput(text="a", text_pair="")]}, "inputs[0].text_pair", "leave it out"),
        ({"layers": [0, 3]}, "layers[1]", "models/m has layers 0 to 2"),
        ({"heads": [2]}, "heads[0]", "models/m has heads 0 to 1"),
        ({"layers": [1, 1]}, "layers[1]", "once"),
        ({"heads": [0, 1, 0]}, "heads[2]", "once"),
        ({"dtype": 4}, "dtype", "DATA_TYPE_FLOAT16"),
        ({"level": -1}, "level", "ATTENTION_LEVEL_PIECE"),
    ],
)
def test_bad_extract_attention(fields: dict[str, Any], field: str, words: str) -> None:
    found, message = refusal(lambda: extract(**fields))
    assert found == field
    assert words in message


def gates(*interventions: dict[str, Any]) -> Any:
    request = cloze.FillMaskRequest(texts=["a"], interventions=[Intervention(**fields) for fields in interventions])
    check_fields(request, LIMITS)
    return parse_interventions(request.interventions, SHAPE, "models/m").edits()


def test_no_interventions_are_no_gates() -> None:
    assert gates() is None


def test_interventions_become_gates() -> None:
    found = gates(
        {"layer": 0, "mode": Intervention.MODE_ZERO},
        {"layer": 1, "heads": [1], "mode": Intervention.MODE_UNIFORM},
        {"layer": 2, "heads": [0], "mode": Intervention.MODE_SCALE, "scale": -2.5},
    )
    np.testing.assert_array_equal(found.keep, [[0, 0], [1, 0], [-2.5, 1]])
    np.testing.assert_array_equal(found.uniform, [[0, 0], [0, 1], [0, 0]])


def test_mean_interventions_become_constants() -> None:
    intervention = Intervention(layer=1, heads=[1], mode=Intervention.MODE_MEAN)
    parsed = parse_interventions([intervention], SHAPE, "models/m")
    means = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    found = parsed.edits(means)
    assert found is not None
    np.testing.assert_array_equal(found.keep, [[1, 1], [1, 0], [1, 1]])
    assert list(found.constant) == [1]
    np.testing.assert_array_equal(found.constant[1], [np.zeros(4), means[1, 1]])
    assert parsed.mean.tolist() == [[False, False], [False, True], [False, False]]


@pytest.mark.parametrize(
    ("mode", "texts", "field", "words"),
    [
        (Intervention.MODE_MEAN, [], "reference_texts", "give texts"),
        (Intervention.MODE_MEAN, ["a"] * 5, "reference_texts", "takes 4; send them in parts"),
        (Intervention.MODE_MEAN, ["a", " "], "reference_texts[1]", "write some text"),
        (Intervention.MODE_ZERO, ["a"], "reference_texts", "leave it out"),
    ],
)
def test_bad_reference_texts(mode: Any, texts: list[str], field: str, words: str) -> None:
    needed = bool(parse_interventions([Intervention(mode=mode)], SHAPE, "models/m").mean.any())

    def check() -> None:
        check_fields(cloze.FillMaskRequest(texts=["a"], reference_texts=texts), LIMITS)
        check_reference_texts(texts, needed=needed)

    found, message = refusal(check)
    assert found == field
    assert words in message


def test_a_scale_of_nought_is_set() -> None:
    assert gates({"mode": Intervention.MODE_SCALE, "scale": 0.0}).keep[0].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("interventions", "field", "words"),
    [
        ([{"layer": 3, "mode": 1}], "interventions[0].layer", "layers 0 to 2"),
        ([{"heads": [1, 2], "mode": 1}], "interventions[0].heads[1]", "heads 0 to 1"),
        ([{"heads": [1, 1], "mode": 1}], "interventions[0].heads[1]", "once"),
        ([{"mode": 1}, {"heads": [1], "mode": 2}], "interventions[1]", "name each head once"),
        ([{}], "interventions[0].mode", "set MODE_ZERO"),
        ([{"mode": 5}], "interventions[0].mode", "set MODE_ZERO"),
        ([{"mode": 3, "scale": 1.0}], "interventions[0].scale", "leave it out"),
        ([{"mode": 2, "scale": 1.0}], "interventions[0].scale", "leave it out"),
        ([{"mode": 4}], "interventions[0].scale", "needs a factor"),
        ([{"mode": 4, "scale": math.nan}], "interventions[0].scale", "from -1000 to 1000"),
        ([{"mode": 4, "scale": math.inf}], "interventions[0].scale", "from -1000 to 1000"),
        ([{"mode": 4, "scale": -1000.01}], "interventions[0].scale", "from -1000 to 1000"),
    ],
)
def test_bad_interventions(interventions: list[dict[str, Any]], field: str, words: str) -> None:
    found, message = refusal(gates, *interventions)
    assert found == field
    assert words in message


def test_maps_become_chunks_of_at_most_a_mebibyte_that_cover_them_once() -> None:
    maps = np.random.default_rng(0).random((2, 500, 500), dtype=np.float32)
    rendered = list(render_chunks(attention.AttentionChunk, 5, 4000, maps))
    responses = list(map(attention.ExtractAttentionResponse.FromString, rendered))
    assert [response.SerializeToString() for response in responses] == rendered
    chunks = [response.chunk for response in responses]
    assert [chunk.input_index for chunk in chunks] == [5, 5]
    assert [len(chunk.data) for chunk in chunks] == [CHUNK_BYTES, maps.nbytes - CHUNK_BYTES]
    assert [chunk.offset for chunk in chunks] == [4000, 4000 + CHUNK_BYTES]
    np.testing.assert_array_equal(np.frombuffer(b"".join(chunk.data for chunk in chunks), "<f4"), maps.reshape(-1))


@pytest.mark.parametrize("size", [1, 31, 32, 1000, 4095, 4096, CHUNK_BYTES // 4])
@pytest.mark.parametrize(("index", "offset"), [(0, 0), (255, 2**40)])
@pytest.mark.parametrize(
    ("kind", "response"),
    [
        (attention.AttentionChunk, attention.ExtractAttentionResponse),
        (states.StatesChunk, states.ExtractHiddenStatesResponse),
        (inspection.InspectionChunk, inspection.InspectResponse),
    ],
)
def test_a_chunk_is_written_as_protobuf_writes_it(kind: Any, response: Any, size: int, index: int, offset: int) -> None:
    values = np.arange(size, dtype=np.float32)
    named = {kind.DESCRIPTOR.fields_by_number[TENSOR_FIELD].name: index}
    expected = response(chunk=kind(**named, offset=offset, data=values.tobytes())).SerializeToString()
    assert list(render_chunks(kind, index, offset, values)) == [expected]


def test_chunks_are_little_endian_whatever_the_maps_are() -> None:
    (rendered,) = render_chunks(attention.AttentionChunk, 0, 0, np.array([1.0, 2.0], dtype=">f4"))
    response = attention.ExtractAttentionResponse.FromString(rendered)
    np.testing.assert_array_equal(np.frombuffer(response.chunk.data, "<f4"), [1, 2])


@pytest.mark.parametrize(
    ("entry", "name", "source"),
    [
        ("org/model", "models/model", "org/model"),
        ("name=org/model", "models/name", "org/model"),
        ("/a/b.c/", "models/b.c", "/a/b.c/"),
        ("n=/a/b", "models/n", "/a/b"),
        ("/a=b/c", "models/c", "/a=b/c"),
        ("n=/a=b/c", "models/n", "/a=b/c"),
        ("bertscope-mini", "models/bertscope-mini", "bertscope-mini"),
    ],
)
def test_a_model_flag_is_name_and_source(entry: str, name: str, source: str) -> None:
    spec = parse_model(entry, SETTINGS)
    assert (spec.name, spec.source, spec.device, spec.precision) == (name, source, "auto", "auto")


@pytest.mark.parametrize("model_id", ["a", "A-b_c.d", "0", "x" * 63])
def test_model_ids(model_id: str) -> None:
    assert load_spec(model_id, "s", "cpu", "fp32", "torch").name == f"models/{model_id}"


@pytest.mark.parametrize("model_id", ["-a", ".a", "_a", "a b", "a/b", "é", "a\n", "x" * 64, "a=b", "😀"])
def test_malformed_model_ids(model_id: str) -> None:
    field, message = refusal(load_spec, model_id, "s", "cpu", "fp32", "torch")
    assert field == "model_id"
    assert "use 1 to 63" in message


@pytest.mark.parametrize("source", [".", "..", "/", "a/b c", "a/-"])
def test_a_source_whose_last_part_is_no_id_needs_one(source: str) -> None:
    assert refusal(load_spec, "", source, "cpu", "fp32", "torch")[0] == "model_id"
    assert load_spec("x", source, "cpu", "fp32", "torch").id == "x"


def test_load_model() -> None:
    settings = Settings(device="cpu", precision="bf16")
    expected = LoadSpec("name", "org/name", "cpu", "bf16", runtime="auto")
    assert parse_load(model.LoadModelRequest(source="org/name"), settings) == expected
    request = model.LoadModelRequest(
        source="o/n",
        model_id="i",
        device="cuda:1",
        precision=common_pb2.PRECISION_FLOAT16,
        revision="v1",
        runtime=common_pb2.RUNTIME_ONNX,
    )
    assert parse_load(request, settings) == LoadSpec("i", "o/n", "cuda:1", "fp16", "v1", runtime="onnx")


@pytest.mark.parametrize(
    ("fields", "field", "words"),
    [
        ({}, "source", "give a hub id or a folder"),
        ({"source": " \n"}, "source", "give a hub id or a folder"),
        ({"source": "x", "precision": 4}, "precision", "PRECISION_BFLOAT16"),
        ({"source": "x", "model_id": "?"}, "model_id", "'?' is malformed"),
    ],
)
def test_bad_load_model(fields: dict[str, Any], field: str, words: str) -> None:
    request = model.LoadModelRequest(**fields)

    def load() -> None:
        check_fields(request, LIMITS)
        parse_load(request, SETTINGS)

    found, message = refusal(load)
    assert found == field
    assert words in message


def entries(*names: str) -> list[HostedModel]:
    async def make() -> list[HostedModel]:
        return [HostedModel(LoadSpec(name, "s", "cpu", "fp32", "torch")) for name in names]

    return asyncio.run(make())


def test_pages_lead_to_each_other() -> None:
    loading = entries("a", "b", "c", "d", "e")
    found, token = [], ""
    for expected in (["a", "b"], ["c", "d"], ["e"]):
        page = render_page(loading, *parse_page(model.ListModelsRequest(page_size=2, page_token=token)))
        assert [entry.name for entry in page.models] == [f"models/{name}" for name in expected]
        token = page.next_page_token
        found.append(token)
    assert [bool(token) for token in found] == [True, True, False]


def test_a_page_that_holds_all_has_no_next() -> None:
    assert render_page(entries("a", "b"), 2, "").next_page_token == ""
    assert render_page([], 50, "") == model.ListModelsResponse()


def test_page_sizes() -> None:
    assert parse_page(model.ListModelsRequest()) == (50, "")
    assert parse_page(model.ListModelsRequest(page_size=1000)) == (1000, "")
    check_fields(model.ListModelsRequest(page_size=1000), LIMITS)
    assert refusal(check_fields, model.ListModelsRequest(page_size=1001), LIMITS)[0] == "page_size"


@pytest.mark.parametrize("token", ["a", "abc", "_w==", "/w=="])
def test_malformed_page_tokens(token: str) -> None:
    field, message = refusal(parse_page, model.ListModelsRequest(page_token=token))
    assert field == "page_token"
    assert "leave it out" in message


def test_a_page_token_of_a_model_that_is_gone() -> None:
    assert refusal(render_page, entries("a"), 1, "models/b")[0] == "page_token"


def test_unload_needs_a_name() -> None:
    check_fields(model.UnloadModelRequest(name="models/a"), LIMITS)
    assert refusal(check_fields, model.UnloadModelRequest(), LIMITS)[0] == "name"


def test_a_model_that_loads_shows_what_is_known() -> None:
    (entry,) = entries("a")
    assert render_model(entry) == model.Model(name="models/a", source="s", state=model.Model.STATE_LOADING)


@pytest.mark.parametrize(
    ("has_head", "mask", "capabilities"),
    [(True, ("[MASK]", 4), [1, 2, 3, 8]), (False, ("[MASK]", 4), [1, 3, 8]), (True, (None, None), [1, 3, 8])],
)
def test_a_ready_model_shows_everything(has_head: bool, mask: tuple[Any, Any], capabilities: list[int]) -> None:
    (entry,) = entries("a")
    shape, has = Shape("roberta", 3, 2, 8, 100, 16, 1000), Capabilities(masked_lm=has_head)
    encoder = SimpleNamespace(shape=shape, capabilities=has, runtime="torch", device="cuda:0", precision="bf16")
    tokenizer = SimpleNamespace(max_tokens=14, mask_token=mask[0], mask_id=mask[1])
    steps = (Applied("layers", "kept layers 0, 2 of 4", {"layers_after": 2}), Applied("half", "in 16 bits", {}))
    loaded = SimpleNamespace(
        encoder=encoder,
        tokenizer=tokenizer,
        weight_bytes=4000,
        weights_digest="sha256:0",
        steps=steps,
        choice=None,
        source=None,
    )
    entry.loaded, entry.state = loaded, ModelState.READY  # type: ignore[assignment]
    entry.ready_time = 1.5
    found = render_model(entry)
    assert (found.layers, found.heads, found.hidden_size, found.vocabulary_size, found.max_tokens) == (3, 2, 8, 100, 14)
    assert (found.parameters, found.weight_bytes, found.weights_digest) == (1000, 4000, "sha256:0")
    assert (found.architecture, found.device, found.precision) == ("roberta", "cuda:0", common_pb2.PRECISION_BFLOAT16)
    assert list(found.capabilities) == capabilities
    assert found.mask_token == (mask[0] or "")
    assert found.ready_time.ToMilliseconds() == 1500
    assert found.state == model.Model.STATE_READY
    assert [(step.step, step.description, dict(step.numbers)) for step in found.compression] == [
        ("layers", "kept layers 0, 2 of 4", {"layers_after": 2.0}),
        ("half", "in 16 bits", {}),
    ]


def test_progress() -> None:
    for stage, number in zip(Stage, (1, 2, 3, 4), strict=True):
        found = render_progress(Progress(stage, 5, 9, "a file")).progress
        assert (found.stage, found.done_bytes, found.total_bytes, found.detail) == (number, 5, 9, "a file")


def test_the_embedded_models_source_is_no_path() -> None:
    assert not Path(parse_model("bertscope-mini", SETTINGS).source).is_absolute()
