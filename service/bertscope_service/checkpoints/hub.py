"""Downloads required files from the model hub; never pickle or code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import huggingface_hub
from huggingface_hub import errors as hub
from huggingface_hub.utils import tqdm as hub_tqdm

from bertscope_service.encoders.refusals import unreadable
from bertscope_service.errors import LoadAbandonedError, ServiceError, Unavailable


def download(repository: str, revision: str, patterns: Sequence[str], report: Callable[[int, int], None]) -> Path:
    """Returns the folder of a snapshot with the files that match; revision "" is the hub's own choice.

    `report` is called with the bytes so far and the total; its errors end the download. Raises FailedPrecondition,
    Unavailable.
    """

    class Bar(hub_tqdm):  # type: ignore[misc]
        """Passes the hub's progress on, instead of drawing it."""

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            kwargs["disable"] = True
            self.counts_bytes = kwargs.get("unit") == "B"
            self.done = int(kwargs.get("initial") or 0)
            super().__init__(*args, **kwargs)

        def update(self, n: float | None = 1) -> None:
            self.done += int(n or 0)
            if self.counts_bytes:
                report(self.done, int(self.total or 0))

    try:
        folder = huggingface_hub.snapshot_download(
            repository,
            revision=revision or None,
            allow_patterns=list(patterns),
            ignore_patterns=_below(patterns),
            tqdm_class=Bar,
        )
    except (LoadAbandonedError, MemoryError):
        raise
    except Exception as error:
        raise _download_error(error, repository, revision) from error
    return Path(folder)


def _below(patterns: Sequence[str]) -> list[str]:
    """Returns patterns of files in subfolders that patterns without a slash would match, as stars match slashes too."""
    return [f"*/{one}" if one.startswith("*") else f"{one}/*" for one in patterns if "*" in one and "/" not in one]


def _download_error(error: Exception, repository: str, revision: str) -> ServiceError:
    """Converts an error of the hub's library: names the step that failed, not the server's paths."""
    where = f"{repository}@{revision}" if revision else repository
    match error:
        case hub.GatedRepoError():
            return unreadable(repository, f"{where} is gated: accept its terms on the hub and give the server a token")
        case hub.RepositoryNotFoundError():
            return unreadable(repository, f"the hub has no model {repository}, or it is private; check the name")
        case hub.RevisionNotFoundError():
            return unreadable(repository, f"the hub has no revision {revision!r} of {repository}")
        case hub.OfflineModeIsEnabled() | hub.LocalEntryNotFoundError():
            offline = huggingface_hub.constants.HF_HUB_OFFLINE
            why = "the server is offline (HF_HUB_OFFLINE)" if offline else "the hub can't be reached"
            message = f"{where} is not in the server's cache and {why}; give a folder, or download it first"
            return Unavailable(message, "HUB_UNREACHABLE", source=repository)
        case OSError() if not isinstance(error, (hub.HfHubHTTPError, ConnectionError, TimeoutError)):
            return unreadable(repository, f"storing {where} failed: {error.strerror or type(error).__name__}")
    # The hub's library passes on errors of its HTTP and transfer libraries, which share no class.
    message = f"downloading {where} from the hub failed ({type(error).__name__}); try again"
    return Unavailable(message, "HUB_UNREACHABLE", source=where)
