"""Pages of ListModels."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence

from bertscope.v1 import model_pb2

from bertscope_service.api.field_checks import LIST_MODELS_PAGE_SIZE
from bertscope_service.errors import InvalidArgument


def parse_page(request: model_pb2.ListModelsRequest) -> tuple[int, str]:
    """Returns the page size and the name of the last model on the page before ("" for the first page). Raises
    InvalidArgument."""
    size = request.page_size or LIST_MODELS_PAGE_SIZE
    try:
        after = base64.b64decode(request.page_token, altchars=b"-_", validate=True).decode()
        if bool(after) != bool(request.page_token):
            raise ValueError("empty")
    except (binascii.Error, ValueError):
        message = "page_token is not one that ListModels gave; leave it out to begin again"
        raise InvalidArgument("page_token", message, "MALFORMED_PAGE_TOKEN") from None
    return size, after


def cut_page(names: Sequence[str], size: int, after: str) -> tuple[slice, str]:
    """Returns the page after the model named `after`, and the token of the next page, "" on the last one.

    Raises InvalidArgument if that model is gone.
    """
    if after and after not in names:
        message = "page_token points at a model that was unloaded; leave it out to begin again"
        raise InvalidArgument("page_token", message, "STALE_PAGE_TOKEN")
    begin = names.index(after) + 1 if after else 0
    end = min(begin + size, len(names))
    token = base64.urlsafe_b64encode(names[end - 1].encode()).decode() if end < len(names) else ""
    return slice(begin, end), token
