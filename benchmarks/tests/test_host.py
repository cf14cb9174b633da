"""The host's benchmark for a moment: what it prints, that every call gets an answer, and which stage a sample belongs to."""

import json

import pytest

from benchmarks.host import command, stages


@pytest.mark.slow
def test_a_sample_belongs_to_the_innermost_stage_that_is_known() -> None:
    server = "main (/x/bertscope_service/__main__.py:1);run (/x/asyncio/runners.py:2)"
    plan = f"{server};call (/x/bertscope_service/rpc/interceptors.py:3);work (/x/bertscope_service/api/answer.py:4)"
    stacks = [
        f"{server} 10",
        f"{plan} 20",
        f"{plan};encode (/x/bertscope_service/checkpoints/tokenizer.py:5) 30",
        f"{plan};encode (/x/bertscope_service/checkpoints/tokenizer.py:5);join (/x/json/encoder.py:6) 30",
        "elsewhere (/x/other.py:7) 10",
        f"{server};Condition.wait (/x/threading.py:8) 500",
    ]
    assert stages.shares("\n".join(stacks)) == {"tokenizer": 0.6, "plan": 0.2, "loop": 0.1, stages.OTHER: 0.1}


@pytest.mark.slow
def test_every_call_is_measured_beside_the_echo(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--texts", "1", "8", "--callers", "2", "--rounds", "1", "--seconds", "0.2"]
    assert command.main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    cells = found["cells"]
    assert {(cell["question"].partition(",")[0], cell["texts"]) for cell in cells} >= {
        *((name, texts) for name in ("FillMask", "ModelInfer") for texts in (1, 8)),
        ("Classify", 1),
        ("ExtractAttention", 8),
    }
    assert all(cell["calls_per_second"] > 0 and cell["ratio"] > 0 for cell in cells)
    assert {cell["call"] for cell in found["clients"]} >= {
        *(
            f"{client}, {call}"
            for client in ("Client", "AsyncClient")
            for call in ("FillMask", "Classify", "FillMask, all read")
        )
    }
    assert all(cell["cpu_us"] > 0 and cell["ratio"] > 0 for cell in found["clients"])
