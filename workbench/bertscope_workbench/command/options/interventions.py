"""Defines the options for head interventions, and converts them; and those of a model, which are these and the server's."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from bertscope import HeadIntervention

from bertscope_workbench.command import options
from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options import specifications
from bertscope_workbench.command.options.server import ServerOptions
from bertscope_workbench.command.views.files import reading
from bertscope_workbench.readers import files


@dataclass(frozen=True)
class InterventionOptions:
    """The heads to change, and how."""

    zero: options.Zero = None
    uniform: options.Uniform = None
    mean: options.Mean = None
    scale: options.Scale = None
    reference: Annotated[
        Path | None, option("--reference FILE", 'Texts to take a mean over: .txt, or column "text" of a table.')
    ] = None

    def interventions(self) -> list[HeadIntervention]:
        """Returns the interventions, in the order of the options."""
        return specifications.head_interventions(self.zero, self.uniform, self.scale, self.mean)

    def reference_texts(self) -> list[str]:
        """Returns the texts of the file, none if there is none."""
        if self.reference is None:
            return []
        with reading(self.reference):
            return files.read_texts(self.reference)

    def arguments(self) -> dict[str, Any]:
        """Returns both as arguments of a call."""
        return {"interventions": self.interventions(), "reference_texts": self.reference_texts()}


@dataclass(frozen=True)
class ModelOptions(InterventionOptions, ServerOptions):
    """The server, and the heads of its model to change."""
