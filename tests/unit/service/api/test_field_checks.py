"""The contract's rules of fields: the service's checks keep their words, and a validator of the standard agrees with them."""

from functools import cache
from typing import Any

import pytest
from bertscope_service.api.field_checks import check_fields
from bertscope_service.api.limits import RequestLimits
from bertscope_service.errors import InvalidArgument
from google.protobuf.message_factory import GetMessageClass
from protovalidate import Validator

from tools.protos import rules
from tools.protos.borders import Border, Borders
from tools.protos.files import PROTOS, described

LIMITS = RequestLimits(texts=8, text_characters=2000, candidates=20, tokens=1000)
CONTRACT = described(PROTOS)
RULES = rules.read(CONTRACT)


@cache
def borders() -> dict[str, list[Border]]:
    """The borders by request; the rules of a message that several requests hold are tried in the first of them."""
    of = Borders(RULES, LIMITS).of
    return {name.rpartition(".")[2]: list(of(name)) for name in sorted(RULES.requests.values())}


each_request = pytest.mark.parametrize("name", sorted({name.rpartition(".")[2] for name in RULES.requests.values()}))


def refusal(request: Any) -> InvalidArgument | None:
    try:
        check_fields(request, LIMITS)
    except InvalidArgument as error:
        return error
    return None


@each_request
def test_a_request_is_refused_for_the_rule_that_it_breaks_and_for_nothing_else(name: str) -> None:
    for border in borders()[name]:
        found = refusal(border.request)
        assert (found is None) == border.kept, (border.name, found)
        if found is not None:
            assert found.field.startswith(border.name.partition(":")[0])
            assert found.message.startswith(f"{found.field} ")


def test_errors_keep_their_words(stored: Any) -> None:
    """The errors of all rules: the field's message and name, the border, the reason and the message."""
    lines = set()
    for of_request in borders().values():
        for border in of_request:
            if found := refusal(border.request):
                lines.add(f"{border.rule}: {found.reason}: {found.message.removeprefix(found.field)}")
    stored(errors="\n".join(sorted(lines)))


def violations(request: Any) -> list[str]:
    """Returns the fields of which a standard validator says that they break a rule."""
    kind = GetMessageClass(CONTRACT.DESCRIPTOR.file.pool.FindMessageTypeByName(request.DESCRIPTOR.full_name))
    found = Validator().collect_violations(kind.FromString(request.SerializeToString()))
    paths = []
    for violation in found:
        path = ""
        for element in violation.proto.field.elements:
            index = "" if element.subscript is None else f"[{element.subscript.value}]"
            path += f".{element.field_name}{index}"
        paths.append(path.removeprefix("."))
    return paths


@pytest.mark.slow
@each_request
def test_a_standard_validator_names_the_same_fields(name: str) -> None:
    for border in borders()[name]:
        found, own = violations(border.request), refusal(border.request)
        if own is None or not border.local:
            assert found == [], border.name
        else:
            assert any(own.field.startswith(field) for field in found), (border.name, own.field, found)
