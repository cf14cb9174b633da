"""Decides which models callers may have the server load, and where they may have it write."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from bertscope.rpc.credentials import is_loopback_host

from bertscope_service.checkpoints.confinement import ANYWHERE, Confinement
from bertscope_service.checkpoints.sources import is_hub_id, is_path
from bertscope_service.embedded import EMBEDDED
from bertscope_service.errors import PermissionDenied

PULL_REQUEST = re.compile(r"(^|/)pr/", re.IGNORECASE)
"""Revisions of the hub that do not come from a model's owner, such as refs/pr/1."""


class SourceSettings(Protocol):
    """The settings that decide which models callers may load."""

    host: str
    model_root: list[Path]
    model_hub: list[str]


@dataclass(frozen=True, slots=True)
class SourcePolicy:
    """The folders and hub ids that LoadModel, CompressModel and PruneHeads may use. Models of `--model` are the operator's own,
    and not checked.

    roots: folders that models are read from and written to. hub: patterns of hub ids. trusting: neither was set, and only this
    machine can call: everything is allowed.

    Its checks access the disk: call them off the event loop.
    """

    roots: tuple[Path, ...] = ()
    hub: tuple[str, ...] = ()
    trusting: bool = False

    @classmethod
    def of(cls, settings: SourceSettings) -> SourcePolicy:
        roots, hub = tuple(settings.model_root), tuple(settings.model_hub)
        return cls(roots, hub, trusting=not roots and not hub and is_loopback_host(settings.host))

    def confine(self, source: str, revision: str = "") -> Confinement:
        """Returns where the files of a source must lie. Raises PermissionDenied if it may not be loaded at all.

        The error is the same for existing and missing sources.
        """
        if self.trusting or source == EMBEDDED:
            return ANYWHERE
        inside = Confinement(self.roots)
        if not self._allows(source, inside):
            raise PermissionDenied(f"source {source!r} may not be loaded: {self._rule}", "SOURCE_NOT_ALLOWED", source=source)
        if PULL_REQUEST.search(revision):
            message = f"revision {revision!r} is a pull request's, which anybody may write; give a branch, a tag or a commit"
            raise PermissionDenied(message, "SOURCE_NOT_ALLOWED", source=source, revision=revision)
        return inside

    def check_folder(self, folder: Path | None) -> None:
        """Raises PermissionDenied for a folder that no model may be saved in; None saves nothing."""
        if folder is None or self.trusting:
            return
        inside = Confinement(self.roots)
        # Below a root: only the operator makes the root itself.
        if not (inside.holds(folder) and inside.holds(folder.parent)):
            message = f"nothing may be saved in folder {str(folder)!r}: {self._rule}"
            raise PermissionDenied(message, "SOURCE_NOT_ALLOWED", folder=folder)

    def _allows(self, source: str, inside: Confinement) -> bool:
        if not is_path(source):
            return is_hub_id(source) and any(fnmatchcase(source, pattern) for pattern in self.hub)
        try:
            return inside.holds(Path(source).expanduser())
        except RuntimeError:  # the home directory of an unknown user
            return False

    @property
    def _rule(self) -> str:
        if not self.roots and not self.hub:
            return (
                "other machines can reach the server, and no models are allowed for them; start it with "
                "--model-root FOLDER or --model-hub PATTERN, or give it the model with --model"
            )
        folders = "folders below its --model-root" if self.roots else "no folders (it has no --model-root)"
        ids = "hub ids that match its --model-hub" if self.hub else "no hub ids (it has no --model-hub)"
        return f"this server takes {folders} and {ids}"
