"""Lays the pages of the site out in a folder: those of docs/, the files that they link to, and references."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from tools.site.contract import contract_page

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
START, OVERVIEW, CONTRACT = "index.md", "documentation.md", "contract.md"
NAMED = {"start.md": START, "README.md": OVERVIEW}
"""Pages that have another name on the site."""
TOUR = "repository/README.md"
RARELY = ("CHANGELOG.md", "CONTRIBUTING.md", "RELEASING.md")
"""Pages that a search puts last."""
LAST = '<div markdown data-pagefind-weight="0.1">\n\n{}\n</div>\n'
SYNONYMS = {
    "ablation.md": "head importance, causal scrubbing, head knockout, LOO",
    "attention.md": "attention weights, attention visualisation, bertviz",
    "attribution.md": "saliency, feature importance, explanations, SHAP, captum, input gradients",
    "classification.md": "NER, named entities, sentiment, tagging, multi-label",
    "cloze.md": "masked language modelling, fill-mask pipeline, mask prediction",
    "codes.md": "sparse autoencoder, SAE, dictionary learning, features",
    "compression.md": "quantization, pruning, distillation, latency, throughput, speed-up",
    "erasing.md": "concept erasure, LEACE, INLP, amnesic probing, debiasing",
    "knowledge.md": "perplexity, pseudo-perplexity, PLL, minimal pairs, BLiMP, LAMA, facts",
    "languages.md": "multilingual, cross-lingual retrieval, word alignment",
    "models.md": "loading, checkpoints, Hugging Face Hub, ONNX, GPU, precision",
    "operations.md": "config file, settings, environment variables, deployment",
    "probes.md": "diagnostic classifier, linear probe, edge probing, control task",
    "representations.md": "sentence embeddings, hidden states, logit lens, tuned lens, CKA, anisotropy",
    "security.md": "authentication, authorisation, TLS, tokens, roles",
    "sites.md": "activation patching, causal tracing, causal mediation, steering vectors, path patching",
    "watching.md": "monitoring, Prometheus, Grafana, OpenTelemetry, alerts",
}
"""Other words for what a page is about, by which people search."""
ALSO = '\n<p data-pagefind-weight="10"><em>Other words for this: {}.</em></p>\n'
FILES = "repository"
"""The folder of the site that has the linked files of the repository."""
LINK = re.compile(r"(\[[^\]\n]*(?:\n[^\]\n]*)?\])\(([^)\s]+)\)")
HEADING = re.compile(r"^## (.+)$", re.MULTILINE)
FENCED = re.compile(r"(^ *```.*?^ *```)", re.DOTALL | re.MULTILINE)
NAMES = re.compile(r'^class (\w+)|^def (\w+)|^    "(\w+)",?$', re.MULTILINE)


def write_pages(folder: Path) -> None:
    """Writes all pages into an empty folder. Links out of docs/ become links to copies of the files that they name; those to
    folders, which a site can't show, become their text."""
    for source in sorted(DOCS.rglob("*")):
        target = folder / source.relative_to(DOCS)
        if source.is_dir():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix != ".md":
            shutil.copyfile(source, target)
            continue
        name = str(target.relative_to(folder))
        target = folder / NAMED.get(name, name)
        also = ALSO.format(SYNONYMS[name]) if name in SYNONYMS else ""
        target.write_text(_linked(source, folder) + also, encoding="utf-8")
    for top in ("README.md", *RARELY):
        if (ROOT / top).exists():
            target = folder / FILES / top
            target.parent.mkdir(parents=True, exist_ok=True)
            page = _linked(ROOT / top, folder)
            target.write_text(LAST.format(page) if top in RARELY else page, encoding="utf-8")
    (folder / CONTRACT).write_text(LAST.format(contract_page()), encoding="utf-8")
    reference = folder / "reference.md"
    reference.write_text("# Python reference\n\n" + "\n".join(_reference()), encoding="utf-8")


def _linked(source: Path, folder: Path) -> str:
    """Returns a page, whose links hold on the site: code is left as it is."""
    at = source.relative_to(DOCS) if source.is_relative_to(DOCS) else Path(FILES, source.relative_to(ROOT))

    def moved(found: re.Match[str]) -> str:
        text, link = found.groups()
        if re.match(r"[a-z]+:|#", link):
            return found[0]
        path, _, anchor = link.partition("#")
        named = Path(os.path.normpath(source.parent / path))
        if not named.is_relative_to(ROOT) or not named.exists():
            raise SystemExit(f"{source.relative_to(ROOT)}: {link} names nothing in the repository")
        if named.is_dir():
            return text[1:-1]
        if named.is_relative_to(DOCS):
            goal = named.relative_to(DOCS)
            goal = Path(NAMED.get(str(goal), goal))
        else:
            goal = Path(FILES, named.relative_to(ROOT))
            page = named.suffix == ".md" and named.parent == ROOT
            if named.suffix == ".md" and not page:
                goal = goal.with_suffix(".txt")  # A page of the repository alone, shown as it is written.
                anchor = ""
            if not page:
                (folder / goal).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(named, folder / goal)
        return f"{text}({os.path.relpath(goal, at.parent)}{'#' + anchor if anchor else ''})"

    parts = FENCED.split(source.read_text(encoding="utf-8"))
    return "".join(part if number % 2 else LINK.sub(moved, part) for number, part in enumerate(parts))


def navigation() -> list[dict[str, str | list[str]]]:
    """Returns the site's menu: under each heading of docs/README.md the pages that it links to, then all others of docs/."""
    text = (DOCS / "README.md").read_text(encoding="utf-8")
    headings = [*HEADING.finditer(text)]
    menu: list[dict[str, str | list[str]]] = [{"Start": START}, {"A tour in five minutes": TOUR}, {"All questions": OVERVIEW}]
    seen = set(NAMED)
    for heading, following in zip(headings, [*headings[1:], None], strict=True):
        part = text[heading.end() : following.start() if following else len(text)]
        links = [link.partition("#")[0] for _, link in LINK.findall(part)]
        pages = [
            link for link in dict.fromkeys(links) if link.endswith(".md") and not link.startswith("..") and link not in seen
        ]
        seen.update(pages)
        menu.append({heading[1]: pages})
    rest = sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if str(page.relative_to(DOCS)) not in seen)
    return [*menu, {"Reference": ["reference.md", CONTRACT, *rest]}]


def titles() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Yields each part of the menu with its pages: address and title."""
    for part in navigation():
        for name, pages in part.items():
            listed = [pages] if isinstance(pages, str) else pages
            yield name, [(page, _title(page)) for page in listed]


def _title(page: str) -> str:
    if page in ("reference.md", CONTRACT, TOUR):
        return {CONTRACT: "The contract", TOUR: "A tour in five minutes"}.get(page, "Python reference")
    sources = {name: source for source, name in NAMED.items()}
    text = (DOCS / sources.get(page, page)).read_text(encoding="utf-8")
    return text.partition("\n")[0].removeprefix("# ")


def _reference() -> Iterator[str]:
    """Yields the entries of the Python reference: the clients, then the names of each room of questions, then errors."""
    yield "Results and calls by the question that they answer.\n"
    calls = sorted(path.stem for path in (ROOT / "client/bertscope/client").glob("*.py"))
    yield "## Client\n\n::: bertscope.client\n"
    yield from (
        f"::: bertscope.client.{name}\n" for name in calls if name not in ("__init__", "calls", "connection", "streams")
    )
    yield "## Errors\n\n::: bertscope.errors\n"
    rooms = sorted(path.parent.name for path in (ROOT / "client/bertscope/questions").glob("*/__init__.py"))
    for room in rooms:
        yield f"## {room.capitalize()}\n"
        for path in sorted((ROOT / "client/bertscope/questions" / room).glob("*.py")):
            if "\n__all__ = " in path.read_text(encoding="utf-8") and not path.stem.startswith("__"):
                yield f"::: bertscope.questions.{room}.{path.stem}\n"
