"""Units of a search are written in options, and what is none is a line that says how to write it."""

import bertscope
import numpy as np
import pytest
import typer
from bertscope_workbench.command.commands.find import nothing
from bertscope_workbench.command.options.searched import nearest, searched
from bertscope_workbench.command.views.output import UsageError


def asked(*units: str, **others):
    given = {"directions": None, "probes": None, "codes": None, "near": None} | others
    return searched(units, **given)


def test_heads_and_neurons_are_grouped_by_layer() -> None:
    found = asked("head:4:10,2", "head:4:3", "heads:5", "neuron:3:217", "neuron:3:217")
    assert found == {"heads": {4: [10, 2, 3], 5: None}, "neurons": {3: [217]}, "directions": []}
    assert asked("heads", "head:4:1", "neurons:2") == {"heads": "all", "neurons": {2: None}, "directions": []}
    assert asked("heads:4", "head:4:1")["heads"] == {4: None}


def test_directions_probes_and_codes_are_read(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("v.npy", np.arange(3.0))
    weights = {2: (np.arange(6, dtype=np.float32).reshape(3, 2), np.array([0.5, -1], np.float32))}
    bertscope.KeptProbe(("DET", "NOUN"), weights, "mean", "models/m", "sha256:0").save("p.npz")
    eye = np.eye(3, dtype=np.float32)
    arrays = {"biases": np.ones(3), "thresholds": np.full(3, 0.25), "decoder": eye, "mean": np.full(3, 2.0)}
    bertscope.SparseCodes(eye, **arrays, layer=2, model="models/m", weights_digest="sha256:0").save("c.safetensors")
    found = asked("code:2:1", directions=["4:v.npy"], probes=["2:p.npz=NOUN"], codes=tmp_path / "c.safetensors")["directions"]
    code, direction, score = found
    assert (code.name, code.layer, code.vector.tolist(), code.bias, code.threshold) == ("code:2:1", 2, [0, 1, 0], -1.0, 0.25)
    assert (direction.name, direction.layer, direction.vector.tolist()) == ("v:4", 4, [0, 1, 2])
    assert (score.name, score.layer, score.vector.tolist(), score.bias) == ("NOUN:2", 2, [1, 3, 5], -1.0)
    assert [one.name for one in asked("codes", codes=tmp_path / "c.safetensors")["directions"]] == [
        "code:2:0", "code:2:1", "code:2:2"
    ]  # fmt: skip


def test_a_code_is_a_direction_whose_value_is_its_activation() -> None:
    draw = np.random.default_rng(0)
    arrays = {"encoder": draw.normal(size=(5, 4)), "decoder": draw.normal(size=(5, 4)), "mean": draw.normal(size=4)}
    codes = bertscope.SparseCodes(
        **arrays, biases=draw.normal(size=5), thresholds=np.full(5, 0.5), layer=1, model="models/m", weights_digest="sha256:0"
    )
    states = draw.normal(size=(50, 4)).astype(np.float32)
    for number in range(5):
        one = codes.direction(number)
        values = states @ np.asarray(one.vector) + one.bias
        found = np.where(values > one.threshold, values, 0)
        np.testing.assert_allclose(found, codes.encode(states)[:, number], atol=1e-5)


def test_words_in_context_stand_between_asterisks() -> None:
    (one,) = nearest("--nearest", ["4:She sat on the *bank* of the river."])
    assert (one.text, one.word, one.layer) == ("She sat on the bank of the river.", "bank", 4)


@pytest.mark.parametrize(
    ("units", "others", "told"),
    [
        (["head:4:x"], {}, "head:4:10"),
        (["mlp:3:1"], {}, "head:4:10"),
        (["code:2:1"], {}, "--codes"),
        (["heads"], {"directions": ["v.npy"]}, "LAYER:VECTOR.npy"),
        (["heads"], {"directions": ["4:none.npy"]}, "cannot read"),
        (["heads"], {"probes": ["p.npz"]}, "LAYER:PROBE.npz=CLASS"),
    ],
)
def test_what_is_no_unit_is_a_line(units, others, told) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        asked(*units, **others)
    assert told in str(caught.value)


def test_a_search_for_nothing_and_a_word_without_asterisks_are_refused() -> None:
    with pytest.raises(UsageError):
        asked()
    with pytest.raises(typer.BadParameter):
        nearest("--nearest", ["4:the bank"])


def test_a_relation_that_no_text_has_is_told_with_those_it_has() -> None:
    text = bertscope.RelationText("The cat sleeps.", [("nsubj", 2, 1), ("det", 1, 0)])
    assert nothing([text], "nosuch") == "no word depends on another by 'nosuch'; the file has det, nsubj"
    assert "--word" in nothing(["The cat sleeps."], None)
