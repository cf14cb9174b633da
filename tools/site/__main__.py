"""`python -m tools.site [FOLDER]` builds the site, by default in build/site; `--quick` leaves out the Python reference, and
`--full` adds the gallery: studies and the Primer of models, which a server that it starts and stops answers."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tools.site.gallery import EMBEDDED, PAGE, write_gallery
from tools.site.pages import ROOT, navigation, titles, write_pages

RANKING = {"pageLength": 0.1, "termFrequency": 0.3}
"""Long pages are no worse than short ones, and a page's own words count for more than those it says often."""

REFERENCE = {
    "default_handler": "python",
    "handlers": {
        "python": {
            "paths": [str(ROOT / "client")],
            "options": {
                "show_root_heading": False,
                "show_root_toc_entry": False,
                "show_source": False,
                "heading_level": 3,
                "inherited_members": True,
                "members_order": "source",
                "filters": ["!^_"],
            },
        }
    },
}


def configuration(pages: Path, site: Path, *, quick: bool) -> dict[str, Any]:
    """Returns the generator's settings: links and anchors are checked, fonts are the system's, nothing comes from a network.
    A gallery among the pages is in the menu."""
    search = {"search": {"pagefind": {"options": {"ranking": RANKING}}}}
    plugins: list[Any] = [search] if quick else [search, {"mkdocstrings": REFERENCE}]
    palette = [
        {"media": f"(prefers-color-scheme: {name})", "scheme": scheme, "toggle": {"icon": icon, "name": f"{other} colours"}}
        for name, scheme, icon, other in (
            ("light", "default", "material/weather-night", "Dark"),
            ("dark", "slate", "material/weather-sunny", "Light"),
        )
    ]
    return {
        "site_name": "bertscope",
        "docs_dir": str(pages),
        "site_dir": str(site),
        "use_directory_urls": False,
        "theme": {"name": "materialx", "font": False, "palette": palette, "features": ["navigation.top", "content.code.copy"]},
        "plugins": plugins,
        "nav": navigation() + ([{"Gallery": PAGE}] if (pages / PAGE).exists() else []),
        "markdown_extensions": [
            "tables",
            "sane_lists",
            "md_in_html",
            {"toc": {"permalink": True}},
            "pymdownx.superfences",
            "pymdownx.highlight",
        ],
        "validation": {
            "nav": {"omitted_files": "ignore", "not_found": "warn"},
            "links": {"not_found": "warn", "anchors": "warn", "absolute_links": "warn", "unrecognized_links": "ignore"},
        },
    }


def llms_text() -> str:
    """Returns the site's llms.txt (llmstxt.org): its name, what it is, and a list of pages for each part of the menu."""
    summary = (
        "A gRPC service that hosts BERT-family models and answers questions about them, with a Python client and a command."
    )
    lines = ["# bertscope", "", f"> {summary}"]
    for part, pages in titles():
        lines += ["", f"## {part}", "", *(f"- [{title}]({page.removesuffix('.md')}.html)" for page, title in pages)]
    return "\n".join([*lines, ""])


def build(site: Path, *, quick: bool, models: Sequence[str] = ()) -> int:
    """Builds the site into a folder, with a gallery of `models`. Returns the generator's exit code, not 0 for a link that leads
    nowhere."""
    with tempfile.TemporaryDirectory() as folder:
        pages, settings = Path(folder, "pages"), Path(folder, "properdocs.yml")
        pages.mkdir()
        write_pages(pages)
        if quick:
            (pages / "reference.md").write_text("# Python reference\n", encoding="utf-8")
        if models:
            write_gallery(pages, models)
        settings.write_text(yaml.safe_dump(configuration(pages, site, quick=quick)), encoding="utf-8")
        command = [sys.executable, "-m", "properdocs", "build", "--strict", "--config-file", str(settings)]
        # With --quiet the generator counts no warnings, and so fails on none.
        done = subprocess.run(command, check=False, cwd=folder, capture_output=True, text=True)
    code = done.returncode
    if code != 0:
        print("\n".join(line for line in done.stderr.splitlines() if "INFO" not in line), file=sys.stderr)
    else:
        gallery = f"\n## Gallery\n\n- [Gallery]({PAGE.removesuffix('.md')}.html)\n" if models else ""
        (site / "llms.txt").write_text(llms_text() + gallery, encoding="utf-8")
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "build" / "site")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--full", action="store_true")
    parser.add_argument(
        "--model", action="append", metavar="NAME=SOURCE", help="of the gallery, as `serve` takes them; repeatable"
    )
    given = parser.parse_args()
    asked = (given.model or [EMBEDDED]) if given.full else []
    sys.exit(build(given.folder.resolve(), quick=given.quick, models=asked))
