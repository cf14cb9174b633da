"""The largest requests that rules and limits allow, of every rpc: none holds the event loop, whatever its answer is."""

from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from bertscope_service.contract import METHODS, Method, Work

from tests.support.harness import Host
from tests.support.patience import granted
from tools.protos.largest import Largest
from tools.protos.samples import good

LARGEST = Largest()
ASKING = [method for method in METHODS.values() if method.work in {Work.INTERACTIVE, Work.BULK}]
PATIENCE_SECONDS = 0.1
"""An answer may take minutes; what the loop does for it comes first."""


@pytest.mark.slow
@pytest.mark.usefixtures("brief", "offline")
@pytest.mark.parametrize("method", ASKING, ids=lambda method: method.name)
def test_no_request_holds_the_loop(
    lab: Host, checkpoints: dict[str, Path], check_alive: Callable[[Host], None], method: Method
) -> None:
    """The fixture `never_held` looks."""
    sample = good(checkpoints["bert"])[method.name]
    for path, request in [*LARGEST.of(sample), ("all lists", LARGEST.whole(sample))]:
        try:
            lab.ask(method, request.SerializeToString(), timeout=granted(PATIENCE_SECONDS))
        except grpc.RpcError as error:
            assert error.code() not in {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}, path
    check_alive(lab)
