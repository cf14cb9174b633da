"""What the package exports, what importing it costs, and that the two clients are one."""

import doctest
import importlib.metadata
import json
import subprocess
import sys

import bertscope
import bertscope_workbench as workbench
import pytest
from bertscope.questions.ablation import objectives, task_objectives
from bertscope.questions.compression import steps
from bertscope.rpc import channel, contract
from bertscope.values import interventions, site_changes


@pytest.mark.parametrize("package", [bertscope, workbench])
def test_every_public_name_is_there_and_what_is_not_there_is_an_error(package):
    for name in package.__all__:
        assert getattr(package, name) is not None
    assert set(package.__all__) <= set(dir(package))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = package.no_such_name


@pytest.mark.parametrize("module", [objectives, task_objectives, steps, interventions, site_changes])
def test_examples_in_docstrings_give_what_they_say(module):
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


@pytest.mark.parametrize("module", ["bertscope", "bertscope_workbench.command.app"])
def test_importing_is_light(module):
    # grpc imports grpc_health if it is there; the base install must do without it.
    code = f"import sys; sys.modules['grpc_health'] = None; import {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"torch", "transformers", "pandas", "matplotlib", "onnxruntime", "bertscope_service"}
    heavy |= {"starlette", "uvicorn", "bertscope_workbench.explore"}
    heavy |= {"bertscope.inference"}  # another client of that protocol in the same process would register its messages again
    assert module in loaded
    assert heavy.isdisjoint(loaded)


def test_only_what_reads_is_asked_again():
    never = {"LoadModel", "UnloadModel", "CompressModel", "DistillModel", "PruneHeads", "BenchmarkModels", "BenchmarkStudies"}
    assert {method.name for method in contract.METHODS} - {method.name for method in contract.IDEMPOTENT} == never
    (policy,) = json.loads(channel.service_config(bertscope.Retries()))["methodConfig"]
    assert {"service": "bertscope.v1.ClozeService", "method": "FillMask"} in policy["name"]
    assert [one["method"] for one in policy["name"]] == [method.name for method in contract.IDEMPOTENT]


def test_the_contract_the_distribution_and_the_workbench_are_what_the_client_says():
    assert bertscope.__version__ == importlib.metadata.version("bertscope")
    assert set(workbench.__all__).isdisjoint(bertscope.__all__)
    assert sorted(contract.PATHS.values()) == sorted(
        f"/{one.containing_service.full_name}/{one.name}" for one in contract.METHODS
    )
    assert contract.PATHS["bertscope.v1.FillMaskRequest"] == "/bertscope.v1.ClozeService/FillMask"
    for method in contract.METHODS:
        name = "".join(f"_{char.lower()}" if char.isupper() else char for char in method.name).lstrip("_")
        assert hasattr(bertscope.Client, name), method.full_name


def test_tables_that_are_empty_and_without_pandas(monkeypatch):
    for kind, column in (
        (bertscope.FilledTexts, "probability"),
        (bertscope.Models, "name"),
        (bertscope.ClassifiedTexts, "label"),
    ):
        assert column in kind().to_pandas().columns
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        bertscope.Models().to_pandas()
