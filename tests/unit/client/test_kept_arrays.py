"""Files of kept probes, lenses and contact maps that lie or are damaged: each is a typed error that names the file."""

import io
import json
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest

PROBE = bertscope.KeptProbe(
    ("a", "b"), {1: (np.ones((4, 2), np.float32), np.zeros(2, np.float32))}, "first", "models/m", "sha256:0"
)
FIT = bertscope.LayerFit(0, 2.0, 1.5, 0.25, 0.5, 30)
LENS = bertscope.TunedLens({0: np.ones((5, 4), np.float32)}, 4, "none", "models/m", "sha256:0", (FIT,))
KEPT = {"probe": (PROBE, bertscope.load_probe, "weights"), "lens": (LENS, bertscope.load_lens, "maps")}


def npy(values: Any) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asarray(values))
    return file.getvalue()


def headed(shape: str, kind: str = "<f4", data: bytes = b"") -> bytes:
    """An array whose header says this, with little behind it."""
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def about(kept: Any, **changes: Any) -> bytes:
    held = json.loads(members(kept)["about.npy"].partition(b"\n")[2])
    return npy(np.frombuffer(json.dumps(held | changes).encode(), np.uint8))


def members(kept: Any) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(whole(kept))) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def whole(kept: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        kept.save(Path(folder, "a"))
        return Path(folder, "a").read_bytes()


LIES = {
    "13 digits": lambda name, _: {f"{name}.npy": headed("(10000000000000,)")},
    "more numbers than any computer has": lambda name, _: {f"{name}.npy": headed("(99999999999999999999, 99999999999)")},
    "negative lengths": lambda name, _: {f"{name}.npy": headed("(-2, -4)", data=bytes(32))},
    "fewer numbers than said": lambda name, _: {f"{name}.npy": headed("(1, 5, 4)", data=bytes(16))},
    "complex": lambda name, _: {f"{name}.npy": npy(np.ones((1, 5, 4), np.complex64))},
    "texts": lambda name, _: {f"{name}.npy": npy(np.full((1, 5, 4), "a"))},
    "records": lambda name, _: {f"{name}.npy": npy(np.zeros((1, 5), "f4,i4"))},
    "objects": lambda name, _: {f"{name}.npy": headed("(1, 5, 4)", "|O", b"\x80")},
    "a header of nothing but brackets": lambda name, _: {f"{name}.npy": headed("(" * 5000)},
    "not finite": lambda name, _: {f"{name}.npy": npy(np.full((1, 5, 4), np.nan))},
    "beyond float32": lambda name, _: {f"{name}.npy": npy(np.full((1, 5, 4), 1e300))},
    "no dimension": lambda name, _: {f"{name}.npy": npy(1.0)},
    "another shape": lambda name, _: {f"{name}.npy": npy(np.ones((1, 3, 2, 2), np.float32))},
    "layer -1": lambda *_: {"layers.npy": npy(np.array([-1]))},
    "layer 2^40": lambda *_: {"layers.npy": npy(np.array([2**40]))},
    "layer 0.5": lambda *_: {"layers.npy": npy(np.array([0.5]))},
    "layers twice": lambda *_: {"layers.npy": npy(np.array([1, 1]))},
    "layers in two dimensions": lambda *_: {"layers.npy": npy(np.array([[1]]))},
    "deep JSON": lambda *_: {"about.npy": npy(np.frombuffer(b"[" * 100_000, np.uint8))},
    "a list": lambda *_: {"about.npy": npy(np.frombuffer(b"[]", np.uint8))},
    "another format": lambda _, kept: {"about.npy": about(kept, format="x")},
    "a model that is a number": lambda _, kept: {"about.npy": about(kept, model=3)},
    "a lone surrogate": lambda _, kept: {"about.npy": about(kept, model="\ud800")},
    "versions that are a list": lambda _, kept: {"about.npy": about(kept, versions=[1])},
    "a version that is a number": lambda _, kept: {"about.npy": about(kept, versions={"torch": 2})},
    "UTF-16": lambda *_: {"about.npy": npy(np.frombuffer('{"a":1}'.encode("utf-16"), np.uint8))},
}
OWN = {
    ("probe", "labels that are a number"): lambda: {"about.npy": about(PROBE, labels=3)},
    ("probe", "fewer labels"): lambda: {"about.npy": about(PROBE, labels=["a"])},
    ("probe", "another pooling"): lambda: {"about.npy": about(PROBE, pooling="all")},
    ("probe", "pairs that are a text"): lambda: {"about.npy": about(PROBE, pairs="yes")},
    ("lens", "a last layer of -1"): lambda: {"about.npy": about(LENS, last_layer=-1)},
    ("lens", "a fit of texts"): lambda: {"about.npy": about(LENS, fits=[dict(vars(FIT), divergence="low")])},
    ("lens", "a fit of another field"): lambda: {"about.npy": about(LENS, fits=[{"x": 1}])},
}


def written(path: Path, files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize(("what", "lie"), [(what, lie) for what in KEPT for lie in LIES] + list(OWN))
def test_a_lie_is_an_error_that_names_the_file(tmp_path: Path, what: str, lie: str) -> None:
    kept, load, name = KEPT[what]
    changed = LIES[lie](name, kept) if lie in LIES else OWN[what, lie]()
    assert changed.keys() <= members(kept).keys()
    with pytest.raises(bertscope.InvalidArgument, match=r"a\.npz"):
        load(written(tmp_path / "a.npz", members(kept) | changed))


@pytest.mark.parametrize("what", KEPT)
def test_a_file_that_is_damaged_anywhere_is_an_error_or_read(tmp_path: Path, what: str) -> None:
    kept, load, _ = KEPT[what]
    stored = whole(kept)
    deflated = written(tmp_path / "b.npz", members(kept), zipfile.ZIP_DEFLATED).read_bytes()
    path = tmp_path / "a.npz"
    refused = 0
    for sound in (stored, deflated):
        for place in range(0, len(sound), 7):
            path.write_bytes(sound[:place] + bytes([sound[place] ^ 0xFF]) + sound[place + 1 :])
            try:
                load(path)
            except bertscope.InvalidArgument as error:
                refused += 1
                assert "a.npz" in str(error)
        for length in range(0, len(sound), 101):
            path.write_bytes(sound[:length])
            with pytest.raises(bertscope.InvalidArgument, match=r"a\.npz"):
                load(path)
    assert refused > 50


def test_arrays_are_read_as_they_were_kept(tmp_path: Path) -> None:
    columns = np.asfortranarray(np.arange(20, dtype=np.float32).reshape(5, 4))
    lens = bertscope.TunedLens({0: columns}, 4, "none", "models/m", "")
    lens.save(tmp_path / "a")
    np.testing.assert_array_equal(bertscope.load_lens(tmp_path / "a").maps[0], columns)
    np.save(tmp_path / "c.npy", np.asfortranarray(np.array([[0, 1], [1, 0]])))
    np.testing.assert_array_equal(workbench.read_contacts(tmp_path / "c.npy"), [[False, True], [True, False]])


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.npy", headed("(10000000, 10000000)")),
        ("a.npy", headed("(-2, -2)", data=bytes(16))),
        ("a.npy", npy(np.zeros((2, 2), np.complex128))),
        ("a.npy", npy(np.array([["1"]]))),
        ("a.npy", npy(np.zeros((1, 1)))[:-3]),
        ("a.npy", npy(np.zeros((1, 1))) + b"more"),
        ("a.npy", npy(np.float64(1))),
        ("a.npy", b""),
        ("a.npy", b"PK\x03\x04"),
        ("a.csv", b"0,1\n1"),
        ("a.csv", b"1+2j"),
        ("a.csv", b"\xff\xfe0"),
        ("a.tsv", b"0,1\n1,0"),
        ("a.tsv", b"\x00" * 1000),
    ],
)
def test_a_contact_map_that_lies(tmp_path: Path, name: str, data: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(bertscope.InvalidArgument, match=rf"a\.{name[2:]}"):
        workbench.read_contacts(path)


def test_a_zip_bomb_is_not_read(tmp_path: Path) -> None:
    kept, load, name = KEPT["lens"]
    bomb = headed("(4, 1048576)", data=bytes(1 << 24))
    path = written(tmp_path / "a.npz", members(kept) | {f"{name}.npy": bomb}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 70_000
    with pytest.raises(bertscope.InvalidArgument, match=r"a\.npz.*compressed"):
        load(path)
