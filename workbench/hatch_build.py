"""How the workbench's metadata and files are made: all distributions are released together, with one version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface


class ClientOfTheSameVersion(MetadataHookInterface):
    """Puts the client, pinned to the version of all, before the dependencies that pyproject.toml lists.

    Where a wheel is built from an sdist it does not run: there PKG-INFO says version and dependencies.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `dependencies`. The version is known by then."""
        metadata["dependencies"] = [f"bertscope=={metadata['version']}", *self.config["dependencies"]]


class CitationFile(BuildHookInterface):  # type: ignore[type-arg]
    """Puts CITATION.cff of the repository beside the bibliography. An sdist has it there already."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Adds the file."""
        source = Path(self.root).parent / "CITATION.cff"
        if source.exists():
            build_data["force_include"][str(source)] = "bertscope_workbench/references/CITATION.cff"
