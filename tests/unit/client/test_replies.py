"""Replies become results, whatever a newer or a broken server sends."""

import dataclasses
import datetime
import io
from collections.abc import Generator

import bertscope
import numpy as np
import pytest
from bertscope.client.streams import last
from bertscope.questions.cloze.answers import FilledTexts, read_filled_texts
from bertscope.questions.labels.classification import read_classified_texts
from bertscope.questions.models.models import Models, read_load_event
from bertscope.rpc import channel, health
from bertscope.v1 import (
    ablation_pb2,
    benchmark_pb2,
    classification_pb2,
    cloze_pb2,
    common_pb2,
    compression_pb2,
    model_pb2,
)
from bertscope.values.messages import token
from bertscope.values.models import Model, read_model
from bertscope_workbench.command.views.models import document, print_models
from rich.console import Console


def test_a_prediction_tells_unset_from_zero():
    unset = cloze_pb2.Prediction(token="a", probability=0.5, log_probability=-0.7)
    zero = cloze_pb2.Prediction(token="a", candidate_probability=0, rank=3, pieces=["a", "##b"], piece_ids=[1, 2])
    request = cloze_pb2.FillMaskRequest(texts=["x [MASK]"])
    filled = cloze_pb2.FilledMask(token_index=2, start=2, end=8, predictions=[unset, zero])
    response = cloze_pb2.FillMaskResponse(
        results=[cloze_pb2.FilledText(masks=[filled], tokens=4, truncated_tokens=1)],
        provenance=common_pb2.Provenance(model="models/m", library_versions={"torch": "2"}),
    )
    (answer,) = read_filled_texts(request.texts, response)
    assert (answer.text, answer.tokens, answer.truncated_tokens) == ("x [MASK]", 4, 1)
    (mask,) = answer.masks
    assert (mask.start, mask.end, mask.token_index) == (2, 8, 2)
    first, second = mask.predictions
    assert (first.candidate_probability, first.rank, first.probability) == (None, None, 0.5)
    assert (second.candidate_probability, second.rank) == (0.0, 3)
    assert (second.pieces, second.piece_ids) == (("a", "##b"), (1, 2))
    assert answer.provenance.library_versions == {"torch": "2"}


@pytest.mark.parametrize("count", [0, 2])
def test_a_reply_with_too_few_or_too_many_texts_is_invalid(count):
    response = cloze_pb2.FillMaskResponse(results=[cloze_pb2.FilledText()] * count)
    with pytest.raises(bertscope.InvalidReply, match=f"{count} of 1"):
        read_filled_texts(["x"], response)


def test_every_field_of_a_model_is_read():
    message = model_pb2.Model(
        name="models/m",
        source="org/m",
        architecture="bert",
        runtime=common_pb2.RUNTIME_TORCH,
        device="cuda:0",
        precision=common_pb2.PRECISION_BFLOAT16,
        layers=6,
        heads=12,
        hidden_size=384,
        vocabulary_size=30522,
        max_tokens=512,
        parameters=22_000_000,
        weight_bytes=88_000_000,
        capabilities=[model_pb2.CAPABILITY_ATTENTION, 99],
        state=model_pb2.Model.STATE_READY,
        weights_digest="sha256:0",
        mask_token="[MASK]",
        labels=["negative", "positive"],
        pruned_heads=[common_pb2.LayerHeads(layer=3, heads=[1, 4]), common_pb2.LayerHeads(layer=0, heads=[2])],
    )
    message.ready_time.FromDatetime(datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC))
    model = read_model(message)
    assert (model.runtime, model.precision, model.state) == ("torch", "bf16", "ready")
    assert model.capabilities == ("attention", "99")
    assert model.labels == ("negative", "positive")
    assert model.pruned_heads == {3: (1, 4), 0: (2,)}
    assert model.ready_time == datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    assert {field.name for field in dataclasses.fields(model)} == set(message.DESCRIPTOR.fields_by_name)
    for name in ("name", "source", "device", "layers", "heads", "parameters", "weight_bytes", "mask_token"):
        assert getattr(model, name) == getattr(message, name)
    message.ClearField("ready_time")
    assert read_model(message).ready_time is None
    assert model.runtime_choice is None


def test_a_model_says_how_its_runtime_was_chosen():
    times = [
        model_pb2.RuntimeTimes(runtime=common_pb2.RUNTIME_TORCH, text_seconds=0.02, batch_seconds=0.1),
        model_pb2.RuntimeTimes(runtime=common_pb2.RUNTIME_ONNX, text_seconds=0.01, batch_seconds=0.09),
    ]
    message = model_pb2.RuntimeChoice(
        preferred=common_pb2.RUNTIME_ONNX, threshold=1.1, times=times, speedup=0.7, low=0.6, high=0.9, rounds=8, remembered=True
    )
    message.measured_time.FromDatetime(datetime.datetime(2026, 1, 2, 3, 4, tzinfo=datetime.UTC))
    model = read_model(model_pb2.Model(name="models/m", runtime_choice=message))
    choice = model.runtime_choice
    assert choice.preferred == "onnx"
    assert choice.times[0] == bertscope.RuntimeTimes("torch", 0.02, 0.1)
    assert str(choice) == (
        "torch is 0.70 [0.60, 0.90] times as fast as onnx and taken from 1.1 on; "
        "8 rounds, measured on 2026-01-02 at 03:04 UTC, remembered"
    )
    assert document(model)["runtime_choice"]["measured_time"] == "2026-01-02T03:04:00+00:00"
    alone = read_model(model_pb2.Model(runtime_choice=model_pb2.RuntimeChoice(reason="it drops tokens"))).runtime_choice
    assert str(alone) == "nothing to choose: it drops tokens"
    assert alone.measured_time is None


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (bertscope.Provenance, common_pb2.Provenance),
        (bertscope.Token, common_pb2.Token),
        (bertscope.Prediction, cloze_pb2.Prediction),
        (bertscope.FilledMask, cloze_pb2.FilledMask),
        (bertscope.LoadProgress, model_pb2.LoadProgress),
        (bertscope.LabelPrediction, classification_pb2.LabelPrediction),
        (bertscope.MetricEffect, ablation_pb2.MetricEffect),
        (bertscope.Bootstrap, ablation_pb2.Bootstrap),
        (bertscope.SweepStart, ablation_pb2.SweepStart),
        (bertscope.SweepSummary, ablation_pb2.SweepSummary),
        (bertscope.HeadEffect, ablation_pb2.HeadEffect),
        (bertscope.HeadRanking, ablation_pb2.RankHeadsResponse),
        (bertscope.RuntimeChoice, model_pb2.RuntimeChoice),
        (bertscope.RuntimeTimes, model_pb2.RuntimeTimes),
        (bertscope.AppliedStep, compression_pb2.AppliedStep),
        (bertscope.CompressionProgress, model_pb2.CompressionProgress),
        (bertscope.BenchmarkProgress, benchmark_pb2.BenchmarkProgress),
        (bertscope.BenchmarkReport, benchmark_pb2.BenchmarkReport),
        (bertscope.Machine, benchmark_pb2.Machine),
        (bertscope.ModelReport, benchmark_pb2.ModelReport),
        (bertscope.Speed, benchmark_pb2.Speed),
        (bertscope.Ratio, benchmark_pb2.Ratio),
        (bertscope.Agreement, benchmark_pb2.Agreement),
        (bertscope.Score, benchmark_pb2.Score),
        (bertscope.Disturbances, benchmark_pb2.Disturbances),
        (bertscope.Published, benchmark_pb2.Published),
        (bertscope.StudyRow, benchmark_pb2.StudyRow),
        (bertscope.StudiesSummary, benchmark_pb2.StudiesSummary),
    ],
)
def test_results_have_the_fields_of_their_messages(result, message):
    assert {field.name for field in dataclasses.fields(result)} == set(message.DESCRIPTOR.fields_by_name)


def test_labels_are_read_with_the_text_they_are_about():
    prediction = classification_pb2.LabelPrediction(label="good", index=1, probability=0.9, logit=2.5)
    other = classification_pb2.LabelPrediction(label="bad", probability=0.1)
    request = classification_pb2.ClassifyRequest(
        inputs=[common_pb2.TextInput(text="a", text_pair=""), common_pb2.TextInput(text="b")]
    )
    result = classification_pb2.ClassifiedText(labels=[prediction, other], tokens=4, truncated_tokens=1)
    first, second = read_classified_texts(request.inputs, classification_pb2.ClassifyResponse(results=[result, result]))
    assert (first.text, first.text_pair, second.text_pair) == ("a", "", None)
    assert (first.label, first.tokens, first.truncated_tokens) == ("good", 4, 1)
    assert first.labels[0] == bertscope.LabelPrediction("good", 1, 0.9, 2.5)
    table = bertscope.ClassifiedTexts([first, second])[:1].to_pandas()
    assert table[["order", "label", "index"]].values.tolist() == [[1, "good", 1], [2, "bad", 0]]


@pytest.mark.parametrize(("results", "message"), [([], "0 of 1"), ([classification_pb2.ClassifiedText()], "without a label")])
def test_a_classification_that_breaks_the_contract_is_invalid(results, message):
    request = classification_pb2.ClassifyRequest(inputs=[common_pb2.TextInput(text="a")])
    with pytest.raises(bertscope.InvalidReply, match=message):
        read_classified_texts(request.inputs, classification_pb2.ClassifyResponse(results=results))


def test_a_token_tells_unset_from_zero():
    special = token(common_pb2.Token(text="[CLS]", special=True))
    first = token(common_pb2.Token(text="a", id=0, word=0, start=1, end=2, segment=1, pieces=["a"]))
    assert (special.id, special.word) == (None, None)
    assert (first.id, first.word, first.start, first.end, first.segment, first.pieces) == (0, 0, 1, 2, 1, ("a",))


def test_load_events():
    progress = model_pb2.LoadProgress(stage=model_pb2.LoadProgress.STAGE_WARMING_UP, done_bytes=1, total_bytes=2)
    event = read_load_event(model_pb2.LoadModelResponse(progress=progress))
    assert event == bertscope.LoadProgress(stage="warming_up", done_bytes=1, total_bytes=2, detail="")
    assert read_load_event(model_pb2.LoadModelResponse()) is None


def load_responses(*events: str) -> Generator[model_pb2.LoadModelResponse, None, None]:
    for event in events:
        yield model_pb2.LoadModelResponse(**({event: {}} if event else {}))


@pytest.mark.parametrize("events", [(), ("",), ("progress",), ("model", "progress")], ids=str)
def test_a_stream_that_ends_without_its_result_is_invalid(events):
    with pytest.raises(bertscope.InvalidReply, match="the server ended the load without a model"):
        last(load_responses(*events), read_load_event, None, Model, "load without a model")


def test_progress_is_passed_on_and_the_result_returned():
    seen: list[bertscope.LoadProgress] = []
    stream = load_responses("progress", "", "progress", "model", "")
    assert isinstance(last(stream, read_load_event, seen.append, Model, "load without a model"), bertscope.Model)
    assert [type(event) for event in seen] == [bertscope.LoadProgress] * 2


def test_health_messages_are_those_of_grpc_health():
    health_pb2 = pytest.importorskip("grpc_health.v1.health_pb2")
    for service in ("", "bertscope.v1.ClozeService"):
        theirs = health_pb2.HealthCheckRequest(service=service)
        assert health.request(service).SerializeToString() == theirs.SerializeToString()
    for name, number in health_pb2.HealthCheckResponse.ServingStatus.items():
        reply = health_pb2.HealthCheckResponse(status=number).SerializeToString()
        assert health.status(health.Int32Value.FromString(reply)) == name
    assert health.status(health.Int32Value(value=9)) == "9"


@pytest.mark.parametrize(
    ("status", "services", "serving"),
    [
        ("SERVING", {}, True),
        ("SERVING", {"a": "SERVICE_UNKNOWN"}, True),
        ("SERVING", {"a": "NOT_SERVING"}, False),
        ("NOT_SERVING", {"a": "SERVING"}, False),
    ],
)
def test_serving(status, services, serving):
    assert bertscope.Health(status, services).serving is serving


def test_options_of_the_caller_win():
    options = dict(channel.channel_options([("grpc.max_receive_message_length", 5), ("x", "y")], bertscope.Retries()))
    assert options["grpc.max_receive_message_length"] == 5
    assert options["x"] == "y"
    assert "bertscope-python/" in options["grpc.primary_user_agent"]


@pytest.mark.parametrize(
    ("timeout", "default", "expected"),
    [
        *((None, 60.0, 60.0), (5.0, 60.0, 5.0), (None, None, None), (float("inf"), 60.0, None), (None, float("inf"), None)),
        *(
            (1e10, 60.0, None),
            (10**20, 60.0, None),
            (-1.0, 60.0, -1.0),
            (float("-inf"), 60.0, -1e9),
            (np.float32(2), None, 2.0),
        ),
    ],
)
def test_deadline(timeout, default, expected):
    assert channel.deadline(timeout, default) == expected


@pytest.mark.parametrize("timeout", [float("nan"), "5", True, [1]])
def test_a_timeout_that_is_no_number_is_refused(timeout):
    with pytest.raises(bertscope.InvalidArgument, match="timeout: must be a number"):
        channel.deadline(timeout, None)
    with pytest.raises(bertscope.InvalidArgument, match="timeout: must be a number"):
        bertscope.Client(timeout=timeout)


@pytest.mark.parametrize("state", ["loading", "unloading"])
def test_a_model_that_is_not_ready_shows_its_state_and_nothing_made_up(state):
    message = model_pb2.Model(name="models/m", source="s", state=model_pb2.Model.State.Value(f"STATE_{state.upper()}"))
    model = read_model(message)
    assert (model.runtime, model.precision, model.state) == ("", "", state)
    screen = Console(width=160, file=io.StringIO())
    print_models(screen, [model])
    assert screen.file.getvalue().split()[-2:] == ["models/m", f"({state})"]


@pytest.mark.parametrize("width", [24, 40, 60, 80, 119, 160])
def test_a_narrow_table_of_models_leaves_columns_out_and_the_name_whole(width):
    message = model_pb2.Model(name="models/all-MiniLM-L12", architecture="electra", device="cuda:0", state=2, layers=12)
    message.capabilities.extend([1, 2, 3])
    screen = Console(width=width, file=io.StringIO())
    print_models(screen, [read_model(message)])
    lines = [line.split() for line in screen.file.getvalue().splitlines() if line.strip()]
    assert len(lines) == 3  # Names of the columns, a rule, the model: nothing is broken.
    assert lines[-1][0] == "models/all-MiniLM-L12"


def test_slices_keep_their_class():
    for kind in (FilledTexts, Models):
        results = kind("abc")
        assert type(results[:2]) is kind
        assert (results[:2], results[-1]) == (("a", "b"), "c")
