"""Print the papers of what a command computes, as BibTeX or as text; without a command, how to cite bertscope.

The documents that --json prints name the same papers under "method".

Example:

  bertscope cite score pairs --format text
"""

import sys
from typing import Literal

from bertscope_workbench.command.groups import argument, option
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.references import BERTSCOPE, methods, papers_as


def cite(
    *,
    command: list[str] | None = argument(
        "COMMAND [OPTION]", "A command, and maybe its option: score pairs, study blimp.", default=None
    ),
    form: Literal["bibtex", "text"] = option("--format", "BibTeX, or a line for each paper.", default="bibtex"),
) -> None:
    name, kind, *rest = [*(each.lstrip("-") for each in command or []), "", ""]
    if any(rest):
        raise UsageError("cite takes a command, and maybe one of its options: bertscope cite score pairs")
    papers: tuple[str, ...] = ()
    if name:
        kinds = methods().get(name)
        if kinds is None:
            raise UsageError(f"there are no papers for {name}; there are for: {', '.join(sorted(methods()))}")
        if kind not in kinds:
            known = ", ".join(filter(None, kinds)) or "none"
            raise UsageError(f"{name} has no entry for {kind}; it has: {known}")
        papers = kinds[kind].papers
        sys.stdout.write(f"{'% ' if form == 'bibtex' else ''}{kinds[kind].number}\n\n")
    sys.stdout.write(papers_as([*papers, BERTSCOPE], form) + "\n")
