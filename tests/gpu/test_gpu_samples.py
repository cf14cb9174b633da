"""On a GPU: each rpc's sample is answered through a server as on the CPU; a pretended GPU also tells how its batches work."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.on_gpu import DEVICE, need

need("grpc", "grpc_health", "grpc_reflection", "grpc_status", "prometheus_client", "pydantic_settings")

from bertscope_service.contract import METHODS, Method, Work  # noqa: E402
from bertscope_service.probing import eraser_run  # noqa: E402

from tests.support.harness import Host, LoopThread, launched  # noqa: E402
from tests.support.patience import granted  # noqa: E402
from tests.support.pretended_gpu.recording import watching  # noqa: E402
from tests.support.reply_numbers import numbers_of  # noqa: E402
from tests.support.tiny import write_lab  # noqa: E402
from tools.protos.samples import good  # noqa: E402

RUNS = [method for method in METHODS.values() if method.work in (Work.INTERACTIVE, Work.BULK)]
TRAINED = frozenset(method.name for method in RUNS if method.work is Work.BULK)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """A server on each device, of the models that samples name."""
    folders = write_lab(tmp_path_factory.mktemp("samples"), "bert", "headless", "sorter", "rater", "tagger", "answerer")
    models, loop = [f"{name}={folder}" for name, folder in folders.items()], LoopThread()
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        for name in ("PROBES", "NEAR_MINIMUM"):  # 800 epochs take a pretended GPU a minute
            patch.setattr(eraser_run, name, replace(getattr(eraser_run, name), max_epochs=10))
        yield {
            device: stack.enter_context(launched(loop, model=models, device=device, precision="fp32"))
            for device in ("cpu", str(DEVICE))
        }
    loop.close()


def answers(host: Host, method: Method, folder: Path) -> np.ndarray[Any, Any]:
    request = good(folder)[method.name].SerializeToString()
    replies = [method.response.FromString(reply) for reply in host.ask(method, request, timeout=granted(60))]
    return numbers_of(replies)


@pytest.mark.parametrize("method", RUNS, ids=lambda method: method.name)
def test_a_sample_is_answered_as_on_the_cpu(hosts: dict[str, Host], tmp_path: Path, method: Method) -> None:
    """Trainings are compared by their sizes alone: dozens of steps enlarge what rounding differs."""
    expected, found = answers(hosts["cpu"], method, tmp_path), answers(hosts[str(DEVICE)], method, tmp_path)
    assert found.shape == expected.shape
    if method.name not in TRAINED:
        np.testing.assert_allclose(found, expected, atol=1e-4, rtol=1e-3)


@pytest.mark.usefixtures("pretended")
@pytest.mark.parametrize(
    "method", [method for method in RUNS if method.work is Work.INTERACTIVE], ids=lambda method: method.name
)
def test_a_sample_never_waits_for_the_device(hosts: dict[str, Host], tmp_path: Path, method: Method) -> None:
    """The second answer: some of the first is kept. test_gpu_budgets.py counts launches and copies of each question."""
    host = hosts[str(DEVICE)]
    answers(host, method, tmp_path)
    with watching() as seen:
        answers(host, method, tmp_path)
    assert not seen.waits, f"the host waits for the device:\n{seen}"
    assert {what for what, _ in seen.to_device} <= {"pinned"}, f"not all copies go on by themselves:\n{seen}"
    assert {what for what, _ in seen.to_host} <= {"non-blocking"}, f"not all copies go on by themselves:\n{seen}"
