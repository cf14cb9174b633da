"""The process beside the server: what crashes, is killed, hangs or is abandoned there is an error of its caller alone."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import onnx
import psutil
import pytest
import torch
from bertscope_service.checkpoints.atomic_folder import atomic_folder
from bertscope_service.compression.onnx.isolated_export import export_onnx
from bertscope_service.encoders.onnx import foreign as onnx_foreign
from bertscope_service.encoders.onnx.foreign import ForeignOnnxEncoder
from bertscope_service.encoders.onnx.helper_process import helper
from bertscope_service.encoders.onnx.sessions import SessionSettings
from bertscope_service.encoders.onnx.values import WEIGHTS
from bertscope_service.errors import FailedPrecondition, LoadAbandonedError

from tests.support.patience import granted
from tests.support.tiny import write_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CONFIG = {"vocab_size": 7, "num_hidden_layers": 1, "num_attention_heads": 1, "hidden_size": 4, "max_position_embeddings": 64}


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint("bert", tmp_path_factory.mktemp("helper") / "bert")


def wait_for(condition: Callable[[], object], what: str) -> None:
    limit = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < limit, f"waited in vain until {what}"
        time.sleep(0.005)


def tasks(pid: int | None = None) -> list[psutil.Process]:
    """Processes of tasks that run now, in the helper of this process."""
    process = helper._process
    found = process.pid if pid is None and process is not None else pid
    try:
        return [] if found is None else psutil.Process(found).children()
    except psutil.NoSuchProcess:
        return []


def exporting(bert: Path, folder: Path, threads: ThreadPoolExecutor) -> Future[object]:
    """An export that is at work, into a folder that appears when it is whole."""

    def export() -> object:
        with atomic_folder(folder) as beside:
            return export_onnx(bert, "bert", beside)

    work = threads.submit(export)
    wait_for(lambda: tasks() or work.done(), "the export has begun")
    assert not work.done()
    return work


@pytest.mark.parametrize(
    ("number", "reason"),
    [(signal.SIGSEGV, "HELPER_CRASHED"), (signal.SIGABRT, "HELPER_CRASHED"), (signal.SIGKILL, "HELPER_MEMORY")],
)
def test_a_task_that_dies_is_an_error_of_its_caller(bert: Path, tmp_path: Path, number: signal.Signals, reason: str) -> None:
    with ThreadPoolExecutor(1) as threads:
        work = exporting(bert, tmp_path / "graphs", threads)
        tasks()[0].send_signal(number)
        with pytest.raises(FailedPrecondition, match="a process that was to export the model") as caught:
            work.result(granted(100))
    assert caught.value.reason == reason
    assert not list(tmp_path.iterdir())


def test_the_next_task_after_a_crash_works(bert: Path, tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as threads:
        work = exporting(bert, tmp_path / "graphs", threads)
        process = helper._process
        assert process is not None
        process.kill()  # it itself, with its task
        with pytest.raises(FailedPrecondition) as caught:
            work.result(granted(100))
        assert caught.value.reason == "HELPER_MEMORY"
        (tmp_path / "again").mkdir()
        applied, details = export_onnx(bert, "bert", tmp_path / "again")
    assert [step.step for step in applied] == ["onnx"]
    assert details["shape"]["layers"] == 4
    assert {path.name for path in (tmp_path / "again").iterdir()} == {"analysis.onnx", "fast.onnx", "model.onnx", "weights.bin"}


def test_a_full_disk_is_an_error_that_says_so(bert: Path, tmp_path: Path) -> None:
    """The process beside the server writes there, and the server names the folder."""

    def export() -> None:
        with atomic_folder(tmp_path / "graphs") as beside:
            (beside / WEIGHTS).symlink_to("/dev/full")
            export_onnx(bert, "bert", beside)

    with pytest.raises(FailedPrecondition, match="is full; make room") as caught:
        export()
    assert caught.value.reason == "DISK_FULL"
    assert not list(tmp_path.iterdir())


def test_a_task_that_nobody_waits_for_is_ended(bert: Path, tmp_path: Path) -> None:
    abandoned, seen = threading.Event(), list[psutil.Process]()

    def check() -> None:
        seen.extend(tasks())
        if seen:
            abandoned.set()
            raise LoadAbandonedError

    with atomic_folder(tmp_path / "graphs") as beside, pytest.raises(LoadAbandonedError):
        export_onnx(bert, "bert", beside, check=check)
    wait_for(lambda: not seen[0].is_running(), "the task has ended")
    assert not tasks()


def endless(file: Path, *, constant: bool) -> Path:
    """A graph with a loop whose condition stays true: it ends neither when it runs nor, if it reads no input, when it is
    optimised."""
    helpers, form = onnx.helper, onnx.TensorProto
    true = helpers.make_tensor("true", form.BOOL, [], [True])
    body = helpers.make_graph(
        [helpers.make_node("Identity", ["going"], ["goes"]), helpers.make_node("Identity", ["value"], ["next"])],
        "body",
        [
            helpers.make_tensor_value_info("turn", form.INT64, []),
            helpers.make_tensor_value_info("going", form.BOOL, []),
            helpers.make_tensor_value_info("value", form.FLOAT, None),
        ],
        [helpers.make_tensor_value_info("goes", form.BOOL, []), helpers.make_tensor_value_info("next", form.FLOAT, None)],
    )
    start = ["zero"] if constant else ["scores"]
    nodes = [
        helpers.make_node("Unsqueeze", ["attention_mask", "axis"], ["wide"]),
        helpers.make_node("Add", ["wide", "row"], ["sum"]),
        helpers.make_node("Cast", ["sum"], ["scores"], to=form.FLOAT),
        helpers.make_node("Loop", ["", "true", *start], ["found"], body=body),
        helpers.make_node("Add", ["scores", "found"], ["logits"]),
    ]
    text = ["rows", "length"]
    graph = helpers.make_graph(
        nodes,
        "endless",
        [helpers.make_tensor_value_info(name, form.INT64, text) for name in ("input_ids", "attention_mask")],
        [helpers.make_tensor_value_info("logits", form.FLOAT, [*text, 7])],
        [
            true,
            helpers.make_tensor("axis", form.INT64, [1], [2]),
            helpers.make_tensor("row", form.INT64, [7], range(7)),
            helpers.make_tensor("zero", form.FLOAT, [7], [0.0] * 7),
        ],
    )
    model = helpers.make_model(graph, opset_imports=[helpers.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, str(file))
    return file


@pytest.mark.parametrize("constant", [False, True], ids=["at run time", "while it is optimised"])
def test_a_graph_that_never_ends_is_an_error_of_its_caller(
    constant: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnx_foreign, "TRIAL_SECONDS", 2.0)
    file = endless(tmp_path / "model.onnx", constant=constant)
    with pytest.raises(FailedPrecondition, match=r"did not end within 2 s") as caught:
        ForeignOnnxEncoder.load(file, CONFIG, SessionSettings(torch.device("cpu"), tmp_path, threads=1))
    assert caught.value.reason == "HELPER_TIMEOUT"
    wait_for(lambda: not tasks(), "the graph has ended")


def test_all_of_it_ends_with_the_server(bert: Path, tmp_path: Path) -> None:
    """Even if that is killed."""
    program = (
        "import sys; from pathlib import Path\n"
        "from bertscope_service.compression.onnx.isolated_export import export_onnx\n"
        "export_onnx(Path(sys.argv[1]), 'bert', Path(sys.argv[2]))\n"
    )
    (tmp_path / "graphs").mkdir()
    command = [sys.executable, "-c", program, str(bert), str(tmp_path / "graphs")]
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}) as server:
        family = psutil.Process(server.pid)

        def below() -> list[psutil.Process]:
            """The process beside it and its task; libraries start others for a moment."""
            try:
                return [
                    one
                    for one in family.children(recursive=True)
                    if "bertscope_service.encoders.onnx.helper_main" in one.cmdline()
                ]
            except psutil.NoSuchProcess:
                return []

        found: list[psutil.Process] = []

        def runs() -> bool:
            """The same two, twice: a process that begins another is there twice for a moment."""
            before, found[:] = [*found], below()
            return (len(found) == 2 and found == before) or server.poll() is not None

        wait_for(runs, "a task runs")
        server.kill()
    assert len(found) == 2
    wait_for(lambda: not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in found), "all have ended")
