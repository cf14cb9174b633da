"""Changes at sites are written in options, and what can't be one is a line that says how to write it."""

from pathlib import Path

import bertscope
import numpy as np
import pytest
import typer
from bertscope.values.changes import site_message
from bertscope_workbench.command.options.interventions import InterventionOptions


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
