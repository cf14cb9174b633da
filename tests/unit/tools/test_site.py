"""The site has every page of docs/, holds no link that leads nowhere, and loads nothing from a network."""

import re
from functools import partial
from pathlib import Path

import pytest

from tools.site import __main__ as site
from tools.site import gallery, pages

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    assert site.build(folder, quick=True) == 0
    return folder


def test_every_page_is_on_the_site_and_in_the_menu_once(built: Path) -> None:
    written = (str(path.relative_to(pages.DOCS)) for path in pages.DOCS.rglob("*.md"))
    expected = {Path(pages.NAMED.get(name, name)).with_suffix(".html") for name in written}
    assert all((built / page).exists() for page in expected)
    listed = [page for _, part in pages.titles() for page, _ in part]
    assert len(listed) == len(set(listed))
    assert {Path(page).with_suffix(".html") for page in listed} >= expected
    text = (built / "llms.txt").read_text(encoding="utf-8")
    assert text.startswith("# bertscope\n\n> ")
    assert all(f"({page})" in text for page in expected)


def test_a_search_knows_other_words_and_puts_the_changelog_last(built: Path) -> None:
    assert "Other words for this: saliency" in (built / "attribution.html").read_text(encoding="utf-8")
    assert pages.SYNONYMS.keys() <= {path.name for path in pages.DOCS.glob("*.md")}
    changes = (built / "repository" / "CHANGELOG.html").read_text(encoding="utf-8")
    assert changes.index('data-pagefind-weight="0.1"') < changes.index("Keep a Changelog")


def test_pages_load_nothing_from_a_network(built: Path) -> None:
    for page in built.rglob("*.html"):
        found = re.findall(r'<(?:script|img|iframe|link)[^>]+(?:src|href)="?(https?:[^" >]*)', page.read_text(encoding="utf-8"))
        assert not found, (page, found)


def test_a_gallery_is_in_the_menu_and_the_site_is_whole_without(
    built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not (built / "gallery.html").exists()
    piece = gallery.Piece("study capitals", "Capitals", "studies.md")
    monkeypatch.setattr(site, "write_gallery", partial(gallery.write_gallery, pieces=[piece]))
    assert site.build(tmp_path, quick=True, models=[gallery.EMBEDDED]) == 0
    listed = (tmp_path / "gallery.html").read_text(encoding="utf-8")
    assert "gallery/bertscope-mini/capitals.html" in listed and "studies.html" in listed
    assert "gallery.html" in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "reproduced" in (tmp_path / "gallery" / gallery.EMBEDDED / "capitals.html").read_text(encoding="utf-8")
    test_pages_load_nothing_from_a_network(tmp_path)


@pytest.mark.parametrize("link", ["nowhere.md", "cloze.md#no-such-heading"])
def test_a_link_that_leads_nowhere_ends_the_build(link: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "README.md").write_text(f"# Start\n\n## Pages\n\n[cloze](cloze.md)\n\n[wrong]({link})\n", encoding="utf-8")
    (docs / "cloze.md").write_text("# Cloze\n", encoding="utf-8")
    monkeypatch.setattr(pages, "DOCS", docs)
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    if "#" in link:
        assert site.build(tmp_path / "site", quick=True) != 0
    else:
        with pytest.raises(SystemExit, match=r"nowhere\.md names nothing"):
            site.build(tmp_path / "site", quick=True)
