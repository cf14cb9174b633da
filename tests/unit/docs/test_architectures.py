"""The architectures that README.md and docs/models.md name are those that are declared, with what each can do.

After a change that is meant: `python -m tests.unit.docs.test_architectures` writes both anew.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from bertscope_service.encoders.heads import Head
from bertscope_service.encoders.torch.architectures import ARCHITECTURES, NO_MAPS
from bertscope_service.encoders.torch.architectures.architecture import Architecture

ROOT = Path(__file__).parents[3]
BEGIN, END = "<!-- architectures: written by tests/unit/docs/test_architectures.py -->", "<!-- end of architectures -->"


def columns(kind: type[Architecture]) -> dict[str, str]:
    """What an architecture can do beyond what all can; "" for yes, and why not."""
    no_head = "transformers has no such head for it"
    return {
        "labels": "" if kind.name_of(Head.SEQUENCE) else no_head,
        "token labels": "" if kind.name_of(Head.TOKENS) else no_head,
        "answers": "" if kind.name_of(Head.ANSWERS) else no_head,
        "next sentence": "" if kind.pooler else "it is not pre-trained with that task",
        "remove heads": kind.unprunable or "",
        "remove layers": kind.fixed_layers or "",
        "remove units": kind.fixed_network or "",
        "ONNX": kind.unexportable({}),
        "contributions": f"{kind.beside_heads} lie beside its heads" if kind.beside_heads else "",
        "sums": "" if kind.in_stream else "its layers, or its head, are no sum of heads and a feed-forward block",
    }


def table() -> Iterator[str]:
    """The table of docs/models.md, and the reasons below it."""
    names = list(columns(ARCHITECTURES["bert"]))
    reasons: list[str] = []
    rows = []
    for name, kind in sorted(ARCHITECTURES.items()):
        marks = []
        for why in columns(kind).values():
            if why and why not in reasons:
                reasons.append(why)
            marks.append(f"no ({reasons.index(why) + 1})" if why else "yes")
        about = " ".join((kind.__doc__ or "").split()).removesuffix(".")
        rows.append(f"| `{name}` | {about} | {' | '.join(marks)} |")
    yield f"| model_type | about | {' | '.join(names)} |"
    yield "|---|---|" + "---|" * len(names)
    yield from rows
    yield ""
    yield from (f"{number}. {why}" for number, why in enumerate(reasons, 1))
    yield ""
    yield "Not hosted, because attention is what bertscope shows:"
    yield ""
    yield from (f"- `{name}`: {why}" for name, why in sorted(NO_MAPS.items()))


def sentence() -> Iterator[str]:
    """The list of README.md."""
    names = ", ".join(f"`{name}`" for name in sorted(ARCHITECTURES))
    yield f"  {len(ARCHITECTURES)} architectures: {names}."


PAGES = {ROOT / "docs" / "models.md": table, ROOT / "README.md": sentence}


def written(page: Path) -> str:
    """The page with its part written anew."""
    text = page.read_text(encoding="utf-8")
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    assert found
    assert closed
    return before + BEGIN + "\n" + "\n".join(PAGES[page]()) + "\n" + END + after


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_names_what_is_declared(page: Path) -> None:
    assert page.read_text(encoding="utf-8") == written(page)


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(written(path), encoding="utf-8")
