"""Whatever is sent gets one of our documented statuses, and the next good request is answered.

Requests are made from the contract: the sample of an rpc with some of its fields changed, at any depth; any values in any
fields; the sample's bytes with some of them changed; and noise.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from bertscope_service.contract import METHODS, Method, Role, Work
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.support.harness import CALL_SECONDS, Failure, Host
from tools.protos.samples import good

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("brief", "offline")]

DOCUMENTED = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.NOT_FOUND,
    grpc.StatusCode.ALREADY_EXISTS,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.UNAVAILABLE,
}
FAST = settings(
    max_examples=30,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
FEW = settings(FAST, max_examples=15)
"""For requests of which few are good, and for methods whose good requests take a tenth of a second or more: they measure, train
or make a model."""

NUMBERS = st.sampled_from([0, 1, 2, 3, 4, 5, 300, 1001, 2**31 - 1])
ENUMS = st.sampled_from([0, 1, 2, 3, 4, 5, 99, -1, 2**31 - 1, -(2**31)])
SCALES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-300, 1000.0, 1000.1, -1e38, float("nan"), float("inf"), float("-inf")])
ODD_TEXTS = st.sampled_from(
    [
        *("", " ", "\0", "\u200b", "\u202e", "\ufeff", "[MASK]", "[MASK][MASK]", "[mask]", "[SEP]", "[CLS] [MASK] [PAD]"),
        *("<mask>", "</s>", "\ud7ff\U0010ffff", "e\u0301" * 9, "😀[MASK]😀", "The [MASK] sat.", "x" * 600, "the " * 80),
        *("[MASK]" * 70, "a\n[MASK]\r\nb", "##ing", "[UNK] [MASK]", "東京 [MASK]", "[MASK" * 3, "[X] is [Y].", "[Y][Y]"),
        *("/", ".", "./x", "/nowhere", "a/b", "a/b/c", "..", "../..", "/\0", "http://a/b", "cpu", "cuda:9999", "auto"),
    ]
)
# What can't be written as UTF-8 can't be in a request at all; the changed bytes below cover it.
TEXTS = ODD_TEXTS | st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
HOSTED = ("bert", "roberta", "headless", "sorter", "distilled", "tagger", "rater", "topics", "answerer")
GOOD_NAMES = tuple(f"models/{name}" for name in HOSTED)
MODELS = st.sampled_from(["", *GOOD_NAMES, "models/bert", "models/", "x", "models/😀"]) | TEXTS
HARMLESS = ("/", "/\0")
"""Folders that a request may name to write to: nothing can be written there."""


def any_value(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """One value of a field."""
    if field.message_type is not None:
        return st.deferred(lambda: any_message(GetMessageClass(field.message_type)))  # a message may hold itself
    if field.type == FieldDescriptor.TYPE_STRING:
        return MODELS if "name" in field.name or "model" in field.name else TEXTS
    kinds = {
        FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
        FieldDescriptor.CPPTYPE_ENUM: ENUMS,
        FieldDescriptor.CPPTYPE_STRING: st.binary(max_size=20),
        FieldDescriptor.CPPTYPE_DOUBLE: SCALES,
        FieldDescriptor.CPPTYPE_FLOAT: SCALES,
    }
    return kinds.get(field.cpp_type, NUMBERS)


def plain_fields(message: Any) -> list[FieldDescriptor]:
    """Returns a message's fields, but for maps."""
    fields = message.DESCRIPTOR.fields
    return [field for field in fields if field.message_type is None or not field.message_type.GetOptions().map_entry]


def any_message(kind: type[Message]) -> st.SearchStrategy[Any]:
    """A message with any values in any of its fields."""
    values = {
        field.name: st.lists(any_value(field), max_size=4) if field.is_repeated else any_value(field)
        for field in plain_fields(kind)
    }
    return st.fixed_dictionaries({}, optional=values).map(lambda given: kind(**given))


def change(draw: st.DrawFn, message: Any) -> None:
    """Changes one field of a message, or of one inside it: sets, adds, repeats, swaps or removes a value."""
    given = {field.name for field, _ in message.ListFields()}
    # Fields that are given are taken as often as all others together: what goes wrong there is reached by other code.
    names = [field for field in plain_fields(message) if field.name in given]
    field = draw(st.sampled_from(names if names and draw(st.booleans()) else plain_fields(message)))
    value = getattr(message, field.name)
    if field.is_repeated:
        how = draw(st.sampled_from(["inside", "inside", "add", "again", "reverse", "remove", "clear"] if value else ["add"]))
        place = draw(st.integers(0, len(value) - 1)) if value else 0
        if how == "inside" and field.message_type is not None:
            change(draw, value[place])
        elif how == "inside":
            value[place] = draw(any_value(field))
        elif how == "add":
            value.append(draw(any_value(field)))
        elif how == "again":
            value.append(value[place])
        elif how == "reverse":
            value.reverse()
        elif how == "remove":
            del value[place]
        else:
            message.ClearField(field.name)
    elif field.message_type is None:
        setattr(message, field.name, draw(any_value(field)))
    elif field.name in given and draw(st.integers(0, 4)):
        change(draw, value)
    elif field.name in given:
        message.ClearField(field.name)
    else:
        value.SetInParent()
        value.CopyFrom(draw(any_value(field)))


@st.composite
def changed(draw: st.DrawFn, sample: Message) -> Message:
    """The sample with one to three changes, as an empty message has no fields to change."""
    request = type(sample)()
    request.CopyFrom(sample)
    if request.DESCRIPTOR.fields:
        for _ in range(draw(st.integers(1, 3))):
            change(draw, request)
    return request


@st.composite
def changed_bytes(draw: st.DrawFn, sample: Message) -> bytes:
    """The sample's bytes, some of them changed, cut out, put in and put behind."""
    data = bytearray(sample.SerializeToString()[:2000])
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, len(data)))
        how = draw(st.sampled_from(["set", "cut", "insert", "append", "truncate"]))
        some = draw(st.binary(min_size=1, max_size=6))
        if how == "set":
            data[place : place + 1] = some[:1]
        elif how == "cut":
            del data[place : place + len(some)]
        elif how == "insert":
            data[place:place] = some
        elif how == "append":
            data += some
        else:
            del data[place:]
    return bytes(data)


KINDS: dict[str, Callable[[Message], st.SearchStrategy[bytes]]] = {
    "changed samples": lambda sample: changed(sample).map(lambda request: request.SerializeToString()),
    "any messages": lambda sample: any_message(type(sample)).map(lambda request: request.SerializeToString()),
    "changed bytes": changed_bytes,
    "noise": lambda sample: st.binary(max_size=60),
}


def destroys(request: Any, folders: tuple[str, ...]) -> bool:
    """Returns whether a request unloads a model that other tests need, or writes to a folder outside the test's."""
    if request.DESCRIPTOR.name == "UnloadModelRequest":
        return request.name in GOOD_NAMES
    folder = getattr(request, "folder", "")
    return folder.startswith("/") and folder not in (*HARMLESS, *folders)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS.values(), ids=lambda method: method.name)
def test_odd_requests(
    lab: Host, check_alive: Callable[[Host], None], checkpoints: dict[str, Path], method: Method, kind: str
) -> None:
    before = lab.names()
    sample = good(checkpoints["bert"])[method.name]
    slow = method.work in (Work.BULK, Work.WHOLE_DEVICE) or method.role is Role.ADMIN

    @(FEW if slow or kind in ("any messages", "noise") else FAST)
    @given(KINDS[kind](sample))
    def fuzz(data: bytes) -> None:
        try:
            if destroys(method.request.FromString(data), (getattr(sample, "folder", ""),)):
                return
        except DecodeError:
            pass  # the server says so, too
        try:
            # A change may ask for the export of a graph, which takes many seconds.
            lab.ask(method, data, timeout=6 * CALL_SECONDS if slow else CALL_SECONDS)
        except grpc.RpcError as error:
            failure = Failure(error)
            assert failure.code in DOCUMENTED, f"{failure.code}: {failure.message}"
        check_alive(lab)
        lab.unload_all_but(GOOD_NAMES)

    fuzz()
    assert lab.names() == before
