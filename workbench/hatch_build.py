"""How the workbench's metadata are made: all distributions are released together, with one version."""

from __future__ import annotations

from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ClientOfTheSameVersion(MetadataHookInterface):
    """Puts the client, pinned to the version of all, before the dependencies that pyproject.toml lists.

    Where a wheel is built from an sdist it does not run: there PKG-INFO says version and dependencies.
    """

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `dependencies`. The version is known by then."""
        metadata["dependencies"] = [f"bertscope=={metadata['version']}", *self.config["dependencies"]]
