"""Files of sentences and their translations, and of gold alignments; and how links and retrieval are drawn."""

from pathlib import Path
from typing import Any

import bertscope
import bertscope_workbench as workbench
import numpy as np
import pytest
from bertscope_workbench.analyses.alignment import WordLink

from tests.support.stored_outputs import outcome

PROVENANCE = bertscope.Provenance("models/m", "sha256:" + "0" * 64, "torch", "cpu", "fp32", {}, "zero_based")


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode("utf-8", errors="surrogateescape"))
    return path


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stored) -> None:
    monkeypatch.chdir(tmp_path)
    lines = write(Path("a.txt"), "Ja . ||| Yes .\n\nNein . ||| No .\n")
    table = write(Path("a.tsv"), "de\ten\nJa .\tYes .\nNein .\tNo .\n")
    one, other = write(Path("a.de"), "Ja .\n\nNein .\n"), write(Path("a.en"), "Yes .\n\nNo .")
    read, gold = workbench.read_translations, write(Path("gold"), "0-0 1p2\n\n3-1\n")
    found = [read(lines), read(table, columns={"source": "de", "target": "en"}), read(one, other)]
    alignments = workbench.read_gold_alignments(gold)
    broken = [("Ja .\n", None), ("Ja . |||\n", None), ("\n", None), ("Ja .\nNein .\n", "Yes .\n")]
    broken += [("\nNein .\n", "Yes .\nNo .\n"), ("\udcff\n", "Yes .\n")]

    def refused(sources: str, targets: str | None) -> Any:
        path = write(Path("b.txt"), sources)
        return outcome(lambda: read(path, None if targets is None else write(Path("b.en"), targets)))

    stored(
        pairs=[[list(each), each.lines] for each in found],
        limit=list(read(lines, limit=1)),
        gold=list(alignments),
        limit_of_gold=len(workbench.read_gold_alignments(gold, limit=2)),
        refused=[
            *(refused(*given) for given in broken),
            lambda: read(lines, columns={"source": "de"}),
            lambda: workbench.read_gold_alignments(write(Path("gold"), "0-0\n1:2\n")),
            lambda: workbench.read_gold_alignments(write(Path("gold"), "\udcff")),
        ],
    )


def test_drawings(stored) -> None:
    links = (WordLink(0, 1, 0.91), WordLink(1, 0, -0.2))
    found = workbench.WordAlignment(0, ("das", "$Haus$"), ("house", "a"), links, 4, "argmax", PROVENANCE)
    ranks = np.array([[1, 2, 1, 1], [1, 1, 1, 1]])
    nearest = np.array([[0, 0, 2, 3], [0, 1, 2, 3]])
    directions = nearest, nearest, ranks, ranks[::-1], np.zeros(2, int), np.zeros(2, int)
    retrieved = workbench.RetrievedSentences((0, 6), (0, 1, 2, 4), *directions, True, "mean", 0, PROVENANCE)
    stored(
        alignment=workbench.plot_alignment(found, workbench.GoldAlignment.parse("0-1 1p0 7-7")),
        dark_alignment=workbench.plot_alignment(found, dark=True),
        retrieval=workbench.plot_retrieval(retrieved),
        dark_retrieval=workbench.plot_retrieval(retrieved, dark=True, title="of two languages"),
    )
