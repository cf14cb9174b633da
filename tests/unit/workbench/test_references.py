"""Papers are listed once, every command that computes a number names its own, and documents say what was computed."""

import json
import re
from pathlib import Path

import pytest
import yaml
from bertscope import __version__
from bertscope_workbench.command.app import FoundCommands, run
from bertscope_workbench.command.views.method import running, with_method
from bertscope_workbench.papers.claim_files import studies
from bertscope_workbench.references import bibliography, citation, methods

ROOT = Path(__file__).parents[3]
NO_NUMBER = {"cache", "cite", "demo", "explore", "health", "mcp", "models", "serve", "token"}
"""Commands that compute no number of their own."""


def test_every_command_that_computes_a_number_names_its_papers() -> None:
    assert methods().keys() == set(FoundCommands()) - NO_NUMBER


def test_every_paper_that_is_named_is_known_and_every_known_one_is_named() -> None:
    named = {paper for kinds in methods().values() for method in kinds.values() for paper in method.papers}
    assert named | {"bertscope"} == set(bibliography())


@pytest.mark.slow
def test_all_options_and_studies_with_a_method_exist() -> None:
    commands = FoundCommands()
    known = {*studies()}
    for name in methods():
        modes = getattr(commands[name], "commands", {})
        every = [commands[name], *modes.values()]
        options = known if name == "study" else {*modes, *(parameter.name for each in every for parameter in each.params)}
        assert set(methods()[name]) - {""} <= options, name


def test_cite_prints_papers(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["cite", "score", "pairs"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("% The share of minimal pairs") and "@article{warstadt-etal-2020-blimp," in shown
    assert run(["cite", "--format", "text"]) == 0
    year = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["date-released"].year
    expected = f"The bertscope maintainers ({year}, version {__version__}). bertscope: BERTology as a Service.\n"
    assert capsys.readouterr().out == expected
    assert run(["cite", "study", "dark-secrets", "--format", "text"]) == 0
    assert "Revealing the Dark Secrets" in capsys.readouterr().out


def test_a_document_names_the_method_of_the_command_that_runs() -> None:
    token = running.set(("cka", ["model"]))
    try:
        found = with_method({"layers": [0]})
        assert with_method([1]) == [1]
    finally:
        running.reset(token)
    assert found["method"]["papers"] == ["kornblith-etal-2019-similarity"]
    assert "@inproceedings{kornblith-etal-2019-similarity," in found["method"]["bibtex"]
    assert json.loads(json.dumps(found)) == found


def test_the_citation_file_is_of_this_version() -> None:
    found = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert found["cff-version"] == "1.2.0" and found["type"] == "software"
    assert {"message", "title", "authors", "version", "license"} <= set(found)
    assert str(found["version"]) == __version__
    assert all(set(author) <= {"name", "website", "given-names", "family-names"} for author in found["authors"])


def test_a_paper_says_who_wrote_it_when_and_where() -> None:
    for key, entry in bibliography().items():
        assert entry.count("{") == entry.count("}"), key
        fields = set(re.findall(r"^  (\w+) = \{.+\},$", entry, re.MULTILINE))
        assert fields >= {"author", "title", "year"} | ({"version"} if key == "bertscope" else set()), key
        assert key == "bertscope" or fields & {"booktitle", "journal", "howpublished", "publisher"}, key
        assert not set("{}\\") & set(citation(entry))
        assert "others" not in citation(entry)
