"""Fixtures that tests of every kind share."""

import atexit
import gc
import importlib
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import copy_context
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.support.family import FAMILY, THREE
from tests.support.patience import granted


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the options that run tests/gpu without a GPU and write stored outputs."""
    parser.addoption(
        "--pretend-gpu", action="store_true", help="run the tests of tests/gpu on pretended GPUs; others not at all"
    )
    parser.addoption("--store-outputs", action="store_true", help="write the stored outputs instead of comparing with them")


def pytest_configure(config: pytest.Config) -> None:
    """Pretends GPUs if that is asked for, turns off Hypothesis' limits of time, and lets jsonschema, which Ray imports, compile
    the grammars of IRIs when it checks the first one: it takes seconds."""
    if config.getoption("--pretend-gpu"):
        from tests.support.pretended_gpu.driver import install

        install()
    with suppress(ImportError):  # where only tests on a GPU run
        from hypothesis import HealthCheck, settings

        settings.register_profile("tests", deadline=None, suppress_health_check=[HealthCheck.too_slow])
        settings.load_profile("tests")

    @cache
    def compiled() -> Any:
        del sys.modules[late.__name__]
        return importlib.import_module(late.__name__)

    late: Any = ModuleType("rfc3987_syntax")
    late.is_valid_syntax = lambda *given: compiled().is_valid_syntax(*given)
    sys.modules.setdefault(late.__name__, late)


SPECIFIC = frozenset({"checkpoints", "compression", "encoders", "gpu"})
"""Folders of tests whose code depends on the architecture: its tokenizer, its weights, its attention."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Makes the tests of most architectures slow ones: `make test` takes BERT, tests marked `two_architectures` also
    ModernBERT, those in SPECIFIC folders ALBERT besides, and tests marked `every_architecture` all."""
    for item in items:
        values = item.callspec.params.values() if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ()
        named = {
            name for value in values for name in (value if isinstance(value, tuple) else (value,)) if isinstance(name, str)
        } & FAMILY.keys()
        most = 3 if SPECIFIC.intersection(item.path.parts) else 2 if item.get_closest_marker("two_architectures") else 1
        given = item.get_closest_marker("slow") or item.get_closest_marker("every_architecture")
        if named - set(THREE[:most]) and given is None:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Gives all modules that need exported graphs to one process: another would wait for it or export, too."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    @cache
    def exports(module: str) -> bool:
        return "export_cache" in (config.rootpath / module).read_text(encoding="utf-8")

    class OneExporter(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "graphs" if exports(nodeid.partition("::")[0]) else super()._split_scope(nodeid)

    return OneExporter(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects no garbage while modules are imported: there is little, and much to scan."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True, optionalhook=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Any) -> object:
    """Lets a test's own limit follow the machine as its waits do, so that they fail first, with what they waited for."""
    import pytest_timeout

    return pytest_timeout.pytest_timeout_set_timer(item, settings._replace(timeout=granted(settings.timeout)))


def pytest_collection_finish() -> None:
    """Lets Typer build each application once in a process, not in each call, and takes what was imported out of the garbage
    collector's sight: a collection would scan it for half a second each time."""
    for name, builder in (("typer.main", "get_command"), ("typer.testing", "_get_command")):
        if name in sys.modules:
            setattr(sys.modules[name], builder, cache(sys.modules["typer.main"].get_command))
    gc.freeze()
    atexit.register(gc.unfreeze)  # or libraries would report that their objects leaked


@pytest.fixture(scope="session", autouse=True)
def export_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where servers and tests keep exported graphs. Each tiny checkpoint is exported once, by all processes of a test run."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "export-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BERTSCOPE_CACHE_FOLDER", str(folder))
        yield folder


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of an architecture's tiny checkpoint, written once. Nobody may change it."""

    @cache
    def folder(architecture: str) -> Path:
        from tests.support.tiny import write_checkpoint  # transformers takes seconds to import, and few tests need it

        return write_checkpoint(architecture, tmp_path_factory.mktemp("checkpoints") / architecture)

    return folder


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Compares things, by their names, with the text that is stored for this test in outputs/, beside its module."""
    from tests.support.stored_outputs import check  # numpy and protobuf, which few tests need

    name = request.node.name.removeprefix("test_").replace("/", "_")
    place = request.path.parent / "outputs" / request.path.stem.removeprefix("test_") / f"{name}.txt"
    return lambda **things: check(place, things, store=request.config.getoption("--store-outputs"))


@pytest.fixture(autouse=True)
def process_state() -> Iterator[None]:
    """Fails the test that leaves the process changed for those after it, and restores the levels of logs.

    What it sees: log levels, the environment, the working folder, PyTorch's defaults, and context variables.
    """
    before = state_of_process()
    levels = {logger: logger.level for logger in LOGGERS}
    yield
    after = state_of_process()
    for logger, level in levels.items():
        if logger.level != level:  # to set it empties the caches of all loggers
            logger.setLevel(level)
    changed = {name: (before.get(name), value) for name, value in after.items() if before.get(name, value) != value}
    assert not changed, f"the test changed its process: {changed}"


LOGGERS = [logging.getLogger(name) for name in (None, "bertscope", "bertscope_service")]


def state_of_process() -> dict[str, object]:
    """Everything process-wide that a test could leave changed. What is not imported yet is left out."""
    # pytest writes the name of the test into the environment.
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    state: dict[str, object] = {"environment": environment, "folder": Path.cwd()}
    state |= {f"log level of {logger.name}": logger.level for logger in LOGGERS}
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "get_default_dtype"):
        state |= {"default dtype": torch.get_default_dtype(), "gradients": torch.is_grad_enabled()}
        state["threads"] = torch.get_num_threads()
    state["context"] = {variable.name: value for variable, value in copy_context().items()}
    return state
