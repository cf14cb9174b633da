"""Ask which claims about BERT hold for a model: those of "A Primer in BERTology" and later papers, each with a measurement, a
control and a verdict.

Writes one page that anybody can read, and beside it the same as .json and .parquet. Without --data, items that ship are asked.

Example:

  bertscope primer --only negation --only few-patterns
"""

from pathlib import Path

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.papers import PaperOptions
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.papers.claim_files import read_claims


def primer(
    *,
    server: ServerOptions,
    papers: PaperOptions,
    claims: list[Path] | None = option("--claims FILE.toml", "Ask claims of yours instead. Repeatable."),
) -> None:
    """Asks the claims, prints the table, and writes page and files."""
    papers.run(server, "primer", lambda only: read_claims(claims or (), only), "The Primer, executed")
