"""What an operator sees: metrics, logs, request ids. Never a word of what users sent."""

import logging
import re
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import torch
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import attention_pb2 as attention
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2
from bertscope.v1 import model_pb2 as model
from bertscope_service import contract
from bertscope_service.observability.logs import JsonFormatter, TextFormatter
from bertscope_service.rpc.hosting import QUEUE_TOKENS
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.support.harness import CALL_SECONDS, Host, held
from tests.support.metric_names import METRIC_NAMES
from tests.support.patience import granted, wait_until

SECRET = "xylophone"
METHODS = {method.name for method in contract.METHODS.values()}
HEX_ID = re.compile(r"[0-9a-f]{32}")


def talk(host: Host) -> int:
    """A few good calls and a few bad ones; how many calls. The words of every rpc's callers are in security/test_canary.py."""
    host.cloze.FillMask(cloze.FillMaskRequest(texts=[f"The {SECRET} is [MASK]."]), timeout=CALL_SECONDS)
    host.models.ListModels(model.ListModelsRequest(), timeout=CALL_SECONDS)
    objective = ablation.Objective(masked_lm_loss=ablation.MaskedLmLoss(texts=[f"The {SECRET} sat."]))
    sweep = ablation.SweepHeadsRequest(objective=objective, mode=common_pb2.HeadIntervention.MODE_ZERO)
    list(host.ablation.SweepHeads(sweep, timeout=CALL_SECONDS))
    host.ablation.RankHeads(ablation.RankHeadsRequest(objective=objective), timeout=CALL_SECONDS)
    bad: list[Callable[[], Any]] = [
        lambda: host.cloze.FillMask(cloze.FillMaskRequest(texts=[SECRET]), timeout=CALL_SECONDS),
        lambda: host.cloze.FillMask(cloze.FillMaskRequest(model=f"models/{SECRET}", texts=[SECRET]), timeout=CALL_SECONDS),
        lambda: host.raw("ClozeService/FillMask", b"\xff" + SECRET.encode()),
        lambda: host.models.UnloadModel(model.UnloadModelRequest(name=SECRET)),
        lambda: host.classification.Classify(classification.ClassifyRequest(), timeout=CALL_SECONDS),
        lambda: host.ablation.PruneHeads(ablation.PruneHeadsRequest(model_id="x", folder=f"{SECRET}/{SECRET}")),
    ]
    for call in bad:
        with pytest.raises(grpc.RpcError):
            call()
    return 4 + len(bad)


def scrape(host: Host) -> list[Metric]:
    with urllib.request.urlopen(f"http://127.0.0.1:{host.ports.metrics}/metrics", timeout=granted(10)) as page:
        assert page.status == 200
        text = page.read().decode()
    assert SECRET not in text
    return list(text_string_to_metric_families(text))


@pytest.mark.slow
def test_the_metrics_page_has_every_name_with_values_from_bounded_sets(host: Host) -> None:
    talk(host)
    families = scrape(host)
    names = {family.name + ("_total" if family.type == "counter" else "") for family in families}
    assert {name for name in names if name.startswith("bertscope_")} == METRIC_NAMES
    bounds = {
        "method": METHODS,
        "code": {code.name for code in grpc.StatusCode},
        "device": {"cpu"},
        "kind": {"real", "padding"},
        "priority": {"interactive", "bulk"},
        "outcome": {"ready", "failed", "abandoned"},
        "part": {"path", "metadata", "request"},
        "reason": {"queue_full", "deadline_unreachable", "client_limit", "server_limit", "device_busy", "draining"}
        | {"replies_full", "requests_full", "cancelled", "deadline", "overload"},
        "state": {"loading", "ready", "unloading", "used", "unused"},
        "model": {"models/bert", "models/roberta", "models/headless"},
    }
    seen: set[str] = set()
    for family in families:
        for sample in family.samples:
            if not sample.name.startswith("bertscope_"):
                continue
            for label, value in sample.labels.items():
                assert label in {"le", "version"} or value in bounds[label], (sample.name, label, value)
                seen.add(label)
    assert seen >= {"method", "code", "device", "kind", "state", "model", "priority", "outcome"}
    for method in ("SweepHeads", "RankHeads", "PruneHeads", "Classify"):
        assert host.metric("bertscope_request_seconds_count", method=method) > 0


def is_idle(host: Host, method: str) -> bool:
    return host.metric("bertscope_requests_in_flight", method=method) == 0


def test_the_metrics_count_what_happened(host: Host) -> None:
    def count(**labels: str) -> float:
        return host.metric("bertscope_requests_total", **labels)

    ok, bad = count(method="FillMask", code="OK"), count(method="FillMask", code="INVALID_ARGUMENT")
    seconds = host.metric("bertscope_request_seconds_count", method="FillMask")
    rows = host.metric("bertscope_batch_rows_sum", device="cpu")
    talk(host)
    wait_until(lambda: count(method="FillMask", code="INVALID_ARGUMENT") == bad + 2, "the bad ones are counted")
    assert count(method="FillMask", code="OK") == ok + 1
    assert host.metric("bertscope_request_seconds_count", method="FillMask") == seconds + 4
    # A prompt; the sweep's baseline, the states before each of four layers, 16 heads; the ranking.
    assert host.metric("bertscope_batch_rows_sum", device="cpu") == rows + 1 + (1 + 4 + 16) + 1
    for method in METHODS:
        wait_until(partial(is_idle, host, method), "nothing runs")
    assert host.metric("bertscope_models", state="ready") == 3
    assert host.metric("bertscope_queue_limit_tokens", device="cpu") >= QUEUE_TOKENS
    assert host.metric("bertscope_model_weight_bytes", model="models/bert") > 10_000


def test_bytes_waits_and_asked_models_are_counted(host: Host) -> None:
    names = ("bertscope_received_bytes_total", "bertscope_sent_bytes_total")
    request = cloze.FillMaskRequest(model="models/roberta", texts=["The <mask> sat."])
    waits = {"device": "cpu", "priority": "interactive"}
    before = [host.metric(name, method="FillMask") for name in names]
    calls = host.metric("bertscope_model_calls_total", model="models/roberta")
    jobs = host.metric("bertscope_queue_wait_seconds_count", **waits)
    reply = host.cloze.FillMask(request, timeout=CALL_SECONDS)
    after = [host.metric(name, method="FillMask") for name in names]
    assert [now - then for now, then in zip(after, before, strict=True)] == [request.ByteSize(), reply.ByteSize()]
    assert host.metric("bertscope_model_calls_total", model="models/roberta") == calls + 1
    assert host.metric("bertscope_queue_wait_seconds_count", **waits) == jobs + 1


@pytest.mark.slow
def test_loads_are_timed_by_how_they_ended(host: Host, checkpoints: dict[str, Path]) -> None:
    def ended(outcome: str) -> float:
        return host.metric("bertscope_model_load_seconds_count", outcome=outcome)

    ready, failed = ended("ready"), ended("failed")
    source = str(checkpoints["bert"])
    list(host.models.LoadModel(model.LoadModelRequest(model_id="timed", source=source), timeout=CALL_SECONDS))
    assert host.metric("bertscope_model_weight_bytes", model="models/timed") > 0
    host.models.UnloadModel(model.UnloadModelRequest(name="models/timed"), timeout=CALL_SECONDS)
    with pytest.raises(grpc.RpcError):
        list(host.models.LoadModel(model.LoadModelRequest(model_id="lost", source=f"{source}/lost"), timeout=CALL_SECONDS))
    assert (ended("ready"), ended("failed")) == (ready + 1, failed + 1)
    assert all("models/timed" not in sample.labels.values() for family in scrape(host) for sample in family.samples)


def test_a_server_says_whether_it_serves(host: Host, launch: Callable[..., Host]) -> None:
    assert host.metric("bertscope_serving") == 1
    assert launch(load=False).metric("bertscope_serving") == 0


def test_a_device_that_a_benchmark_has_is_shown(host: Host) -> None:
    async def lent() -> tuple[float, float]:
        async with host.server.engine.lease(torch.device("cpu"), refuse=False):
            during = host.metric("bertscope_device_lent", device="cpu")
        return during, host.metric("bertscope_device_lent", device="cpu")

    assert host.loop.run(lent()) == (1, 0)


@pytest.fixture
def requests_logged(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[Any]]]:
    caplog.set_level(logging.DEBUG)
    yield lambda: [record for record in caplog.records if record.name == "bertscope.requests"]


@pytest.mark.slow
def test_there_is_one_line_for_each_call_and_no_word_of_what_users_sent(
    host: Host, requests_logged: Callable[[], list[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    calls = talk(host)
    wait_until(lambda: len(requests_logged()) == calls, "every call is logged")
    for record in caplog.records:
        for formatter in (TextFormatter(), JsonFormatter()):
            assert SECRET not in formatter.format(record)
    for record in requests_logged():
        line = TextFormatter().format(record)
        assert "\n" not in line
        failed = r" reason=[A-Z_]+( model=models/\w+)? peer=ipv4:127\.0\.0\.1:\d+" if record.code != "OK" else ""
        assert re.search(
            rf" request method=\w+ code={record.code} milliseconds=[\d.]+{failed} request_id=[0-9a-f]{{32}}$", line
        )
        assert record.levelno == logging.INFO
    assert len({record.request_id for record in requests_logged()}) == calls
    assert {record.method for record in requests_logged()} <= METHODS
    assert sum(record.code == "OK" for record in requests_logged()) == 4


def test_a_call_that_failed_says_why_on_which_model_and_for_whom(host: Host, requests_logged: Callable[[], list[Any]]) -> None:
    def load(request: model.LoadModelRequest, timeout: float) -> list[model.LoadModelResponse]:
        return list(host.models.LoadModel(request, timeout=timeout))

    refusals: list[tuple[Any, Any, str, str | None]] = [
        (host.cloze.FillMask, cloze.FillMaskRequest(texts=["None."]), "NO_MASK", "models/bert"),
        (host.cloze.FillMask, cloze.FillMaskRequest(model="models/roberta", texts=["None."]), "NO_MASK", "models/roberta"),
        (
            host.cloze.FillMask,
            cloze.FillMaskRequest(model="models/headless", texts=["[MASK]"]),
            "NO_MASKED_LM_HEAD",
            "models/headless",
        ),
        # A name that no model has may be anything, a text too.
        (host.cloze.FillMask, cloze.FillMaskRequest(model=f"models/{SECRET}", texts=["[MASK]"]), "MODEL_NOT_FOUND", None),
        (host.models.GetModel, model.GetModelRequest(name="models/none"), "MODEL_NOT_FOUND", None),
        (load, model.LoadModelRequest(model_id="lost", source="/nowhere"), "SOURCE_UNREADABLE", "models/lost"),
    ]
    peers = set()
    for number, (method, request, reason, name) in enumerate(refusals, start=1):
        with pytest.raises(grpc.RpcError):
            method(request, timeout=CALL_SECONDS)
        wait_until(lambda number=number: len(requests_logged()) == number, "the call is logged")
        record = requests_logged()[-1]
        assert (record.reason, getattr(record, "model", None)) == (reason, name)
        peers.add(record.peer)
    assert len(peers) == 1
    assert re.fullmatch(r"ipv4:127\.0\.0\.1:\d+", peers.pop())


def metadata_id(metadata: Any) -> str:
    (value,) = [value for name, value in metadata if name == "x-request-id"]
    return str(value)


@pytest.mark.parametrize("request_id", ["trace:1.2_3-4", "f" * 128, "", "f" * 129, 'a" code=OK', "<script>"])
def test_the_callers_request_id_comes_back_and_is_logged_and_a_hostile_one_is_replaced(
    host: Host, requests_logged: Callable[[], list[Any]], request_id: str
) -> None:
    metadata = (("x-request-id", request_id),)
    request = cloze.FillMaskRequest(texts=["The [MASK] sat."])
    _, call = host.cloze.FillMask.with_call(request, metadata=metadata, timeout=CALL_SECONDS)
    stream = host.attention.ExtractAttention(attention.ExtractAttentionRequest(), metadata=metadata, timeout=CALL_SECONDS)
    with pytest.raises(grpc.RpcError):
        list(stream)
    given = [metadata_id(one.trailing_metadata()) for one in (call, stream)]
    if request_id in ("trace:1.2_3-4", "f" * 128):
        assert given == [request_id] * 2
    else:
        assert all(HEX_ID.fullmatch(one) for one in given)
    wait_until(lambda: len(requests_logged()) == 2, "both calls are logged")
    assert [record.request_id for record in requests_logged()] == given


def test_a_cancelled_call_is_logged_and_counted_as_cancelled(host: Host, requests_logged: Callable[[], list[Any]]) -> None:
    with held(host) as gate:
        call = host.cloze.FillMask.future(cloze.FillMaskRequest(texts=["The [MASK] sat."]))
        wait_until(lambda: gate.arrived, "it runs")
        call.cancel()
        wait_until(requests_logged, "its end is logged")
    (record,) = requests_logged()
    assert (record.code, record.model) == ("CANCELLED", "models/bert")
    assert record.peer.startswith("ipv4:127.0.0.1:")
    assert not hasattr(record, "reason")  # nobody but the caller knows
