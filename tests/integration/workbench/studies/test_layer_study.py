"""The study of layers on a real server: every question is answered, with the numbers that the client gives."""

from pathlib import Path
from types import SimpleNamespace

import bertscope
import pytest
from bertscope_workbench.command.app import run
from bertscope_workbench.studies.data import find_treebank
from bertscope_workbench.studies.layers import masked_word, single_entries

from tests.support.harness import Host
from tests.support.study_pages import SENTENCE, Sections

OTHER = SENTENCE.replace("cat", "dog").replace("sat", "ran")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "words.conllu").write_text((SENTENCE + OTHER).format(*[""] * 6) * 10, encoding="utf-8")
    return folder


def study(host: Host, data: Path, page: Path, *more: str) -> int:
    return run(
        ["study", "layers", "--target", host.target, "--model", "bert", "--data", str(data), "--output", str(page), *more]
    )


@pytest.mark.slow
def test_all_questions_are_answered(host: Host, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert study(host, data, page) == 0
    assert capsys.readouterr().out == f"wrote {page}\n"
    found = Sections(page.read_text(encoding="utf-8"))
    assert list(found.texts) == ["1", "2", "3", "4.1", "4.2", "4.3", "4.4", "papers"]
    papers = found.counts.pop("papers")
    assert papers["table"] == papers["img"] == 0
    assert all(counts == {"table": 1, "img": 1} for counts in found.counts.values())
    assert "20 sentences with a masked word" in found.texts["3"]
    assert "10 tested words, 5 classes; 80 to train on" in found.texts["4.1"]
    treebank = find_treebank(data, 100)
    texts = [text.text for text in treebank.sentences()]
    with bertscope.Client(host.target) as client:
        described = client.describe_geometry(texts, model="bert")
        train, dev, test = treebank.parts("upos")
        probes = client.train_probe(train, dev=dev, test=test, model="bert")
    assert f"mean cosine {described.anisotropy()[0]:.3f} in the embeddings" in found.texts["1"]
    assert f"Best in layer {probes.best_layer}: {100 * probes.layer(probes.best_layer).accuracy:.1f} %" in found.texts["4.1"]


def test_the_middle_content_word_is_masked(data: Path) -> None:
    (first, *_) = find_treebank(data, 1).sentences()
    assert masked_word(first, "<m>") == ("The cat <m> there.", "sat")
    assert masked_word(bertscope.ProbeText("The of.", [("DET", 0, 3)]), "<m>") is None


def test_bad_data_is_one_line(host: Host, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert study(host, tmp_path, tmp_path / "page.html") == 1
    assert "has no treebank; put a CoNLL-U file (.conllu) into it" in capsys.readouterr().err
    (tmp_path / "bad.conllu").write_text("1\tno\n", encoding="utf-8")
    assert study(host, tmp_path, tmp_path / "page.html") == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


def test_words_of_several_pieces_are_not_asked_of_one_mask(host: Host) -> None:
    """A text that is too long is kept, for the lens to name."""
    masked = [
        ("[MASK] cat sat.", "the"),
        ("[MASK] sat.", "unrecognizably"),
        ("[MASK] " + "cat " * 100, "the"),
        ("A [MASK].", "cat"),
    ]
    with bertscope.Client(host.target) as client:
        inquiry = SimpleNamespace(client=client, model=client.get_model("bert"), timeout=None)
        pieces = [
            len(client.fill_mask(text, candidates=[word], model="bert")[0].masks[0].predictions[0].pieces)
            for text, word in masked[:2]
        ]
        assert pieces[0] == 1 < pieces[1]
        assert single_entries(inquiry, masked) == [masked[0], masked[2], masked[3]]  # type: ignore[arg-type]
