"""Redo a paper on a hosted model: NAME of a study, or the path of a file of yours. "list" names the studies.

Figures are printed beside published ones, and claims with their verdicts; one page has all of it, and .json and .parquet are
beside it.

Example:

  bertscope study capitals --output page.html
"""

from pathlib import Path

from bertscope_workbench.command.groups import argument
from bertscope_workbench.command.options.papers import PaperOptions
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.claims import print_studies
from bertscope_workbench.command.views.output import console
from bertscope_workbench.papers.claim_files import SUFFIX, read_study, studies


def study(
    *,
    server: ServerOptions,
    papers: PaperOptions,
    name: str = argument("NAME", 'A study, the path of a file of yours (.toml), or "list".', field="name"),
) -> None:
    """Asks the claims of a paper, prints figures and verdicts, and writes page and files."""
    if name == "list":
        print_studies(console(), {each: read_study(each) for each in studies()})
        return
    papers.run(server, Path(name).name.removesuffix(SUFFIX), lambda only: read_study(name, only))
