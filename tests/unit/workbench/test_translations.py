"""Files of sentences and their translations, and of gold alignments; and how links and retrieval are drawn."""

from pathlib import Path
from typing import Any

import bertscope
import numpy as np
import pytest
from bertscope.questions.representations.alignment import WordLink

PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode("utf-8", errors="surrogateescape"))
    return path


def test_pairs_of_every_kind_of_file(tmp_path: Path) -> None:
    pairs = [("Ja .", "Yes ."), ("Nein .", "No .")]
    lines = write(tmp_path / "a.txt", "Ja . ||| Yes .\n\nNein . ||| No .\n")
    table = write(tmp_path / "a.tsv", "de\ten\nJa .\tYes .\nNein .\tNo .\n")
    one, other = write(tmp_path / "a.de", "Ja .\n\nNein .\n"), write(tmp_path / "a.en", "Yes .\n\nNo .")
    names = {"source": "de", "target": "en"}
    read = bertscope.read_translations
    found = [read(lines), read(table, columns=names), read(one, other)]
    assert [list(each) for each in found] == [pairs] * 3
    assert [each.lines for each in found] == [[1, 3], [2, 3], [1, 3]]
    assert list(bertscope.read_translations(lines, limit=1)) == pairs[:1]


@pytest.mark.parametrize(
    ("sources", "targets", "said"),
    [
        ("Ja .\n", None, "line 1.*is no pair"),
        ("Ja . |||\n", None, "line 1.*is no pair"),
        ("\n", None, "has no line to read"),
        ("Ja .\nNein .\n", "Yes .\n", "a.en, line 2.*is blank or missing"),
        ("\nNein .\n", "Yes .\nNo .\n", "a.txt, line 1.*is blank or missing"),
        ("\udcff\n", "Yes .\n", "a.txt, line 1.*is not UTF-8"),
    ],
)
def test_files_that_are_no_pairs(tmp_path: Path, sources: str, targets: str | None, said: str) -> None:
    path = write(tmp_path / "a.txt", sources)
    with pytest.raises(bertscope.InvalidArgument, match=said):
        bertscope.read_translations(path, None if targets is None else write(tmp_path / "a.en", targets))
    with pytest.raises(bertscope.InvalidArgument, match="columns: goes with a table"):
        bertscope.read_translations(path, columns={"source": "de"})


def test_gold_alignments(tmp_path: Path) -> None:
    path = write(tmp_path / "gold", "0-0 1p2\n\n3-1\n")
    found = bertscope.read_gold_alignments(path)
    assert found == [bertscope.GoldAlignment.parse(line) for line in ("0-0 1p2", "", "3-1")]
    assert bertscope.read_gold_alignments(path, limit=2) == found[:2]
    for content, said in (("0-0\n1:2\n", "gold, line 2: .*is no link"), ("\udcff", "line 1: cannot be encoded as UTF-8")):
        with pytest.raises(bertscope.InvalidArgument, match=said):
            bertscope.read_gold_alignments(write(path, content))


def texts(figure: Any) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_a_drawn_alignment(tmp_path: Path) -> None:
    links = (WordLink(0, 1, 0.91), WordLink(1, 0, -0.2))
    found = bertscope.WordAlignment(0, ("das", "$Haus$"), ("house", "a"), links, 4, "argmax", PROVENANCE)
    figure = bertscope.plot_alignment(found, bertscope.GoldAlignment.parse("0-1 1p0 7-7"))
    assert texts(figure) == [".91", "-.20"]
    whole, dashed = figure.axes[0].patches
    assert (whole.get_xy(), dashed.get_xy()) == ((0.56, -0.44), (-0.44, 0.56))
    assert (whole.get_linestyle(), dashed.get_linestyle()) == ("-", (0, (2, 1.5)))
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["das", r"\$Haus\$"]
    assert figure.get_suptitle().endswith("models/m, layer 4")
    for number, suffix in enumerate((".png", ".svg")):
        bertscope.save_alignment(found, tmp_path / f"a{suffix}", dark=number == 1)
        assert (tmp_path / f"a{suffix}").stat().st_size > 3000


def test_drawn_retrieval(tmp_path: Path) -> None:
    ranks = np.array([[1, 2, 1, 1], [1, 1, 1, 1]])
    nearest = np.array([[0, 0, 2, 3], [0, 1, 2, 3]])
    pairs, none = (0, 1, 2, 4), np.zeros(2, int)
    directions = nearest, nearest, ranks, ranks[::-1], none, none
    found = bertscope.RetrievedSentences((0, 6), pairs, *directions, True, "mean", 0, PROVENANCE)
    (axes,) = bertscope.plot_retrieval(found).axes
    forward, backward, chance = axes.lines
    assert (forward.get_ydata().tolist(), backward.get_ydata().tolist()) == ([75, 100], [100, 75])
    assert (chance.get_ydata()[0], axes.get_ylabel()) == (25, "translation is nearest, % of sentences")
    assert "models/m, 4 pairs" in axes.figure.get_suptitle()
    bertscope.save_retrieval(found, tmp_path / "r.pdf", dark=True, title="of two languages")
    assert (tmp_path / "r.pdf").stat().st_size > 3000
