"""Which stage of a call a sample of the server belongs to."""

from benchmarks.host import stages


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
