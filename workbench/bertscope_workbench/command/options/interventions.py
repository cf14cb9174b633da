"""Defines the options for changes of heads and at sites, and converts them; and those of a model, which are these and the
server's."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bertscope import HeadIntervention, SiteIntervention

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options import sites, specifications
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import read_file
from bertscope_workbench.readers import files


def _option(written: str, text: str, field: str = "", **more: Any) -> Any:
    """Returns an option that the help lists among these."""
    return option(written, text, field=field, rich_help_panel="Changes inside the model", **more)


@dataclass(frozen=True)
class InterventionOptions:
    """The heads and the other places to change, and how."""

    zero: list[str] | None = _option("--zero L[:H,H]", "Heads that add nothing. Repeatable.", "interventions")
    uniform: list[str] | None = _option("--uniform L[:H,H]", "Heads that attend to all alike. Repeatable.", "interventions")
    mean: list[str] | None = _option(
        "--mean L[:H,H]", "Heads that add their mean over --reference texts. Repeatable.", "interventions"
    )
    scale: list[str] | None = _option("--scale L[:H,H]=F", "Heads that count F times. Repeatable.", "interventions")
    scale_site: list[str] | None = _option(
        "--scale-site SITE:L[:UNITS][@P]=F", "Vectors that count F times: neurons:4:17,99@masks=0. Repeatable."
    )
    codes: Path | None = _option("--codes FILE", "Sparse codes for --scale-site code:L:N=F, of `bertscope codes`, or embedded.")
    codes_alone: bool = _option(
        "--codes-alone", "Put the sum of --codes in place of the states that they are of.", default=False
    )
    mean_site: list[str] | None = _option(
        "--mean-site SITE:L[:UNITS][@P]", "Vectors that are their mean over --reference texts. Repeatable."
    )
    add: list[str] | None = _option(
        "--add L:FILE.npy[@P][=S]", "Add a vector to states; with S, so many mean norms of --reference. Repeatable."
    )
    erase: list[str] | None = _option(
        "--erase L:FILE.npz[@P]", "Take what `bertscope erase` found away from states. Repeatable."
    )
    erase_random: list[str] | None = _option(
        "--erase-random L:FILE.npz[@P]", "Its control: take a random subspace away. Repeatable."
    )
    patch: list[str] | None = _option(
        "--patch SITE:L[:UNITS][@P]=TEXT", "Vectors of another text's run: state:3@1-2=The key to. Repeatable."
    )
    block: list[str] | None = _option(
        "--block L[:H,H]@P>P", "Keep tokens from looking at others: 2:0,3@masks>first. Repeatable."
    )
    reference: Path | None = _option(
        "--reference FILE", 'Texts to take a mean over: .txt, or column "text" of a table.', "reference_texts"
    )

    def interventions(self) -> list[HeadIntervention | SiteIntervention]:
        """Returns the interventions in the order in which they act: those on heads, the sum of --codes, other changes at sites
        in the order of their options."""
        return [
            *specifications.head_interventions(self.zero, self.uniform, self.scale, self.mean),
            *sites.code_changes(self.codes, alone=self.codes_alone),
            *sites.changes("--scale-site", partial(sites.scale_site, codes=self.codes), self.scale_site),
            *sites.changes("--mean-site", sites.mean_site, self.mean_site),
            *sites.changes("--add", sites.add, self.add),
            *sites.changes("--erase", sites.erase, self.erase),
            *sites.changes("--erase-random", sites.erase_random, self.erase_random),
            *sites.changes("--patch", sites.patch, self.patch),
            *sites.changes("--block", sites.block, self.block),
        ]

    def reference_texts(self) -> list[str]:
        """Returns the texts of the file, none if there is none."""
        if self.reference is None:
            return []
        return read_file(self.reference, files.read_texts)

    def arguments(self) -> dict[str, Any]:
        """Returns both as arguments of a call."""
        return {"interventions": self.interventions(), "reference_texts": self.reference_texts()}


@dataclass(frozen=True)
class ModelOptions(InterventionOptions, ServerOptions):
    """The server, and the heads of its model to change."""
