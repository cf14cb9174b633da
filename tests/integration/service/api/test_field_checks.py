"""Every rpc whose fields have rules checks them before anything else about the request."""

import grpc
import pytest
from bertscope_service.api.field_checks import CHECKS, check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.contract import METHODS, Method
from bertscope_service.errors import InvalidArgument
from bertscope_service.settings import Settings

from tests.support.harness import Failure, Host
from tools.protos import rules
from tools.protos.borders import Borders
from tools.protos.files import PROTOS, described

CHECKED = [method for method in METHODS.values() if method.request.DESCRIPTOR.full_name in CHECKS]


@pytest.fixture(scope="module")
def contract() -> rules.Contract:
    return rules.read(described(PROTOS))


@pytest.mark.slow
@pytest.mark.parametrize("method", CHECKED, ids=lambda method: method.name)
def test_a_request_that_breaks_a_rule_is_refused_for_that(lab: Host, contract: rules.Contract, method: Method) -> None:
    usual = Settings()
    limits = RequestLimits(usual.max_texts, usual.max_text_characters, usual.max_candidates, tokens=0)
    borders = Borders(contract, limits).of(method.request.DESCRIPTOR.full_name)
    request = next(border.request for border in borders if not border.kept)
    with pytest.raises(InvalidArgument) as expected:
        check_fields(request, limits)
    with pytest.raises(grpc.RpcError) as caught:
        lab.ask(method, request.SerializeToString())
    found = Failure(caught.value)
    assert (found.fields, found.info.reason) == ([expected.value.field], expected.value.reason)
    assert found.message == expected.value.message
