"""What people write in options becomes changes at sites, steps of a compression or units of a search, or a line that helps."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
import typer
from bertscope.values.changes import site_message
from bertscope_workbench.command.commands import compress
from bertscope_workbench.command.commands.find import nothing
from bertscope_workbench.command.groups import read
from bertscope_workbench.command.options import steps as step_grammar
from bertscope_workbench.command.options.interventions import InterventionOptions
from bertscope_workbench.command.options.searched import nearest, searched
from bertscope_workbench.command.views.output import Failure

from tests.support.stored_outputs import outcome


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.arange(3.0))
    np.savez("e.npz", left=np.ones((3, 1)), right=np.ones((1, 3)))
    np.savez("m.npz", left=np.ones((3, 1)), right=np.ones((1, 3)), mean=np.arange(3.0))
    np.savez("other.npz", a=np.ones(3))
    layer = {"left": np.ones((3, 1)), "right": np.ones((1, 3)), "mean": np.arange(3.0)}
    counts = {"texts": 1, "spans": 2, "label_spans": (1, 1), "majority_correct": 1, "truncated_spans": 0, "empty_spans": 0}
    part = bertscope.ProbePart(**counts, value_mean=0, value_variance=0)
    random = bertscope.LinearEraser(2 * layer["left"], layer["right"], layer["mean"])
    own = bertscope.LayerEraser(**layer, layer=3, accuracy_before=1.0, accuracy_after=0.5, accuracy_random=1.0, random=random)
    source = bertscope.Provenance("models/m", "sha256:0", "torch", "cpu", "fp32", {}, "zero_based")
    about = {"labels": ("a", "b"), "method": "leace", "majority_label": "a", "pooling": "mean"}
    kept = {"hidden_size": 3, "on_disk": False, "seconds": 1.0, "provenance": source}
    bertscope.Eraser(layers={3: own}, **about, train=part, dev=None, test=part, **kept).save("eraser.npz")
    (tmp_path / "text.npy").write_text("no array")
    return tmp_path


def eraser(*more):
    return np.ones((3, 1)), np.ones((1, 3)), *more


WRITTEN = {
    ("--add", "3:v.npy"): lambda: bertscope.add(3, np.arange(3.0)),
    ("--add", "3:v.npy@masks=-2"): lambda: bertscope.add(3, np.arange(3.0), positions="masks", strength=-2),
    ("--add", "0:./v.npy@1-2,5"): lambda: bertscope.add(0, np.arange(3.0), positions=[1, 2, 5]),
    ("--erase", "3:e.npz"): lambda: bertscope.erase(3, eraser()),
    ("--erase", "3:m.npz@not-special"): lambda: bertscope.erase(3, eraser(np.arange(3.0)), positions="not_special"),
    ("--erase", "3:eraser.npz@first"): lambda: bertscope.Eraser.load("eraser.npz").change(3, "first"),
    ("--erase-random", "3:eraser.npz"): lambda: bertscope.Eraser.load("eraser.npz").random_change(3),
    ("--patch", "state:3@1-2=The key = to"): lambda: bertscope.patch(3, "The key = to", positions=[1, 2]),
    ("--patch", "heads:3:1,4=a @ b: c"): lambda: bertscope.patch(3, "a @ b: c", site="heads", units=[1, 4]),
    ("--scale-site", "neurons:4:17,99@masks=0"): lambda: bertscope.scale_site(4, [17, 99], factor=0, positions="masks"),
    ("--scale-site", "feed-forward:4=0.5"): lambda: bertscope.scale_site(4, site="feed_forward", factor=0.5),
    ("--mean-site", "attention:1@4..8,10..12"): lambda: bertscope.mean_site(1, site="attention", positions=[(4, 8), (10, 12)]),
    ("--block", "2:0,3@masks>first"): lambda: bertscope.block_attention(2, [0, 3], queries="masks", keys="first"),
    ("--block", "2@all>3"): lambda: bertscope.block_attention(2, keys=[3]),
}


def given(option, value):
    return InterventionOptions(**{option.removeprefix("--").replace("-", "_"): [value]}).interventions()


@pytest.mark.parametrize(("option", "value"), WRITTEN)
def test_an_option_is_a_change(folder, option, value):
    (found,) = given(option, value)
    assert site_message(found) == site_message(WRITTEN[option, value]())


def test_heads_come_before_sites():
    options = InterventionOptions(scale_site=["state:0=0"], mean_site=["state:1"], zero=["2"], block=["3@all>first"])
    assert [each.layer for each in options.interventions()] == [2, 0, 1, 3]


WRONG = Path(__file__).with_name("wrong_changes.txt").read_text(encoding="utf-8")


def test_what_is_no_change_is_a_line(folder, stored) -> None:
    said = []
    for line in WRONG.splitlines():
        option, _, value = line.partition(" ")
        with pytest.raises(typer.BadParameter) as caught:
            given(option, value)
        assert str(caught.value).startswith(f"{option} {value}: ")
        said.append(str(caught.value))
    stored(said="\n".join(said))


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
WRONG_STEPS = """\
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
        wrong=[outcome(lambda written=written: parse(written)) for written in ["", *WRONG_STEPS.split()]],
        texts_that_no_step_needs=lambda: parse("ffn=0.5", texts=texts),
        no_texts=lambda: parse("heads=0.5", texts=nowhere),
    )


def asked(*units: str, **others):
    given = {"directions": None, "probes": None, "codes": None, "near": None} | others
    return searched(units, **given)


def test_units_are_written_in_options(tmp_path, monkeypatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.arange(3.0))
    weights = {2: (np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0.5, -1], np.float32))}
    bertscope.KeptProbe(("DET", "NOUN"), weights, "mean", "models/m", "sha256:0").save("p.npz")
    eye, codes = np.eye(3, dtype=np.float32), tmp_path / "c.safetensors"
    arrays = {"biases": np.ones(3), "thresholds": np.full(3, 0.25), "decoder": eye, "mean": np.full(3, 2.0)}
    bertscope.SparseCodes(eye, **arrays, layer=2, model="models/m", weights_digest="sha256:0").save(codes)
    text = bertscope.RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)])
    stored(
        by_layer=asked("head:4:10,2", "head:4:3", "heads:5", "neuron:3:217", "neuron:3:217"),
        all_of_them=[asked("heads", "head:4:1", "neurons:2"), asked("heads:4", "head:4:1")["heads"]],
        directions=asked("code:2:1", directions=["4:v.npy"], probes=["2:p.npz=NOUN"], codes=codes)["directions"],
        codes=[one.name for one in asked("codes", codes=codes)["directions"]],
        nearest=nearest("4:She sat on the *bank* of the river."),
        refused=[
            lambda: asked("head:4:x"),
            lambda: asked("mlp:3:1"),
            lambda: asked("code:2:1"),
            lambda: asked("heads", directions=["v.npy"]),
            lambda: asked("heads", directions=["4:none.npy"]),
            lambda: asked("heads", probes=["p.npz"]),
            lambda: asked(),
            lambda: read("--nearest", nearest, "4:the bank"),
        ],
        nothing_found=[nothing([text], "nosuch"), nothing(["The cat sleeps."], None)],
    )
