"""The papers of what a view shows, which its saved pages end with."""

from collections.abc import AsyncGenerator

from bertscope import AsyncClient

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.streams import Event
from bertscope_workbench.references import method_of_commands, papers_as


async def methods(_: AsyncClient, body: Body) -> AsyncGenerator[Event, None]:
    """Yields `{"numbers": [...], "bibtex": ...}` of `commands`, such as "attention describe": a sentence about the number of
    each, and their papers. It asks no server."""
    commands = body.texts("commands")
    body.done()
    found = method_of_commands(f"bertscope {command}" for command in commands)
    papers = dict.fromkeys(paper for method in found for paper in method.papers)
    yield {"numbers": [method.number for method in found], "bibtex": papers_as(papers, "bibtex")}
