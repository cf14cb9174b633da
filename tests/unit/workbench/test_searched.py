"""Units of a search are written in options, and what is none is a line that says how to write it."""

import bertscope
import numpy as np
from bertscope_workbench.command.commands.find import nothing
from bertscope_workbench.command.options.searched import nearest, searched


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
        nearest=nearest("--nearest", ["4:She sat on the *bank* of the river."]),
        refused=[
            lambda: asked("head:4:x"),
            lambda: asked("mlp:3:1"),
            lambda: asked("code:2:1"),
            lambda: asked("heads", directions=["v.npy"]),
            lambda: asked("heads", directions=["4:none.npy"]),
            lambda: asked("heads", probes=["p.npz"]),
            lambda: asked(),
            lambda: nearest("--nearest", ["4:the bank"]),
        ],
        nothing_found=[nothing([text], "nosuch"), nothing(["The cat sleeps."], None)],
    )
