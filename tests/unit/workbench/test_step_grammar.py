"""What people write for --steps becomes steps, and what is wrong is named."""

from pathlib import Path

import bertscope
import pytest
from bertscope_workbench.command.commands import compress
from bertscope_workbench.command.options import steps as step_grammar
from bertscope_workbench.command.views.output import Failure

from tests.support.stored_outputs import outcome


def parse(*values, texts=None):
    return step_grammar.parse(step_grammar.split(values), texts)


def test_what_the_server_says_of_a_step_names_it_as_it_was_written():
    def refuse(message):
        with compress.steps_named(["int8", "heads=0.3"]):
            raise bertscope.Unimplemented(message)

    with pytest.raises(Failure, match=r"^--steps heads=0\.3: ALBERT shares its layers$"):
        refuse("steps[1].heads: ALBERT shares its layers")
    with pytest.raises(Failure, match=r"^--steps heads=0\.3: texts\[3\] has no word$"):
        refuse("steps[1].heads.texts[3] has no word")
    with pytest.raises(Failure, match=r"^steps\[2\] is unknown$"):
        refuse("steps[2] is unknown")
    with pytest.raises(bertscope.Unimplemented, match="no step at all"):
        refuse("no step at all")


STEPS = """\
onnx int8 fp16 bf16 int4 3bit 8bit weight_only=4x32 weight_only=8 layers=0+2+4 heads=2:1+4/3:0/5:all ffn=0.25
ffn=0.25:magnitude magnitude=.5 tokens=1/0.8/0.5 vocabulary=texts.txt vocabulary=texts.txt:3
"""
WRONG = """\
nonsense nonsense=3,onnx onnx,,int8 onnx=1 int4=32 int9 layers layers= layers=0-2 layers=0++2 int8,layers=a weight_only=4x
weight_only=0 weight_only=4x0 heads=2 heads=a heads=0.3 heads=2:1/3 heads=2:1/2:3 heads=2: ffn=1 ffn=nan ffn=0.5:size
ffn=0.5:importance magnitude=half tokens=1/x tokens=nan vocabulary=:2 vocabulary=a.doc vocabulary=texts.txt:0
vocabulary=nowhere.txt
"""


def test_steps(tmp_path, monkeypatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    texts, nowhere = Path("texts.txt"), Path("nowhere.txt")
    texts.write_text("one\ntwo\n")
    expected = [bertscope.keep_layers([0]), bertscope.int8(), bertscope.onnx()]
    assert parse("layers=0,int8,onnx") == parse("layers=0", "int8 , onnx") == expected
    stored(
        steps={written: parse(written) for written in STEPS.split()},
        that_rank=parse("heads=0.3,ffn=0.5:importance", texts=texts),
        wrong=[outcome(lambda written=written: parse(written)) for written in ["", *WRONG.split()]],
        texts_that_no_step_needs=lambda: parse("ffn=0.5", texts=texts),
        no_texts=lambda: parse("heads=0.5", texts=nowhere),
    )
