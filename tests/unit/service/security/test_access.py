"""Who may call: the file of tokens, the table of roles, and the rule that joins them."""

import hashlib
from pathlib import Path

import pytest
from bertscope_service.contract import HEALTH, METHODS, REFLECTION, Role, required
from bertscope_service.errors import FailedPrecondition, PermissionDenied, Unauthenticated
from bertscope_service.observability.metrics import Metrics
from bertscope_service.rpc.authorization import certificate_names
from bertscope_service.security.access import Access
from bertscope_service.security.tokens import Principal, Tokens, watched_tokens
from hypothesis import given
from hypothesis import strategies as st

FILL = "/bertscope.v1.ClozeService/FillMask"
UNLOAD = "/bertscope.v1.ModelService/UnloadModel"
CHANGING = {"LoadModel", "UnloadModel", "CompressModel", "DistillModel", "PruneHeads"}
PROBES = {"ServerLive", "ServerReady", "ModelReady", "Check", "Watch"}


def digest(token: str) -> str:
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


TOKENS = Tokens.parse(
    f"""
    # who may call
    alice read {digest("a")}
    alice read {digest("a2")}  # from May on
    root admin {digest("r").upper().replace("SHA256", "sha256")}
    bob admin certificate:spiffe://example/bob
    """
)
ACCESS = Access(lambda: TOKENS)


def bearing(token: str) -> list[tuple[str, str | bytes]]:
    return [("user-agent", "test"), ("authorization", f"Bearer {token}")]


def test_what_changes_something_needs_an_admin_and_probes_need_nobody() -> None:
    for method in (*METHODS.values(), *HEALTH):
        expected = Role.ADMIN if method.name in CHANGING else Role.ANYONE if method.name in PROBES else Role.READ
        assert required(method.path) is method.role is expected, method.name
    assert required("/grpc.health.v1.Health/List") is Role.ANYONE
    assert {required(f"/{service}/ServerReflectionInfo") for service in REFLECTION} == {Role.READ}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "has no lines"),
        ("# only a comment\n", "has no lines"),
        ("alice read", "line 1"),
        (f"\nalice write {digest('a')}", "line 2"),
        (f"ali/ce read {digest('a')}", "line 1"),
        (f"alice read {digest('a')} more", "line 1"),
        ("alice read hunter2", "sha256"),
        ("alice read sha256:hunter2", "sha256"),
        ("alice read certificate:", "certificate"),
        (f"alice read {digest('a')}\nbob read {digest('a')}", "line 2"),
        ("a read certificate:x\nb read certificate:x", "line 2"),
    ],
)
def test_a_wrong_file_is_refused_by_line_and_not_repeated(text: str, told: str) -> None:
    with pytest.raises(FailedPrecondition, match=told) as caught:
        Tokens.parse(text)
    assert "hunter2" not in str(caught.value)


@given(st.lists(st.sampled_from(["alice", "read", "certificate:", digest("a"), "sha256:", "#", " ", "\n", "\x1c", "é"])))
def test_any_text_is_a_file_of_tokens_or_refused(parts: list[str]) -> None:
    try:
        assert len(Tokens.parse("".join(parts))) > 0
    except FailedPrecondition as error:
        assert error.reason == "TOKENS_UNREADABLE"


def test_lines_that_no_certificate_can_meet_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"alice read {digest('a')}\nbob read certificate:bob.example\n")
    failing = Metrics().reload_failing
    assert len(watched_tokens(file, failing, mutual=True).value) == 2
    with pytest.raises(FailedPrecondition, match=r"--tokens-file: .* --tls-client-ca") as refused:
        watched_tokens(file, failing, mutual=False)
    assert refused.value.reason == "TOKENS_UNREADABLE"


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ([], "TOKEN_MISSING"),
        ([("authorization", "Basic YTphCg==")], "TOKEN_MISSING"),
        ([("authorization", b"Bearer a")], "TOKEN_MISSING"),
        ([("authorization-bin", "Bearer a")], "TOKEN_MISSING"),
        ([("authorization", "Bearer ")], "TOKEN_UNKNOWN"),
        ([("authorization", "Bearer x"), ("authorization", "Bearer a")], "TOKEN_UNKNOWN"),
    ],
)
def test_callers_without_a_known_token_are_refused(metadata: list[tuple[str, str | bytes]], reason: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        ACCESS.admit(FILL, metadata)
    assert refused.value.reason == reason


def test_a_certificate_counts_where_no_token_is_sent() -> None:
    bob = ["spiffe://example/bob"]
    assert ACCESS.admit(UNLOAD, [], bob) == Principal("bob", Role.ADMIN)
    with pytest.raises(Unauthenticated):
        ACCESS.admit(UNLOAD, bearing("x"), bob)
    with pytest.raises(PermissionDenied):
        ACCESS.admit(UNLOAD, bearing("a"), bob)
    assert ACCESS.needs_certificate(FILL, [])
    assert not ACCESS.needs_certificate(FILL, bearing("x"))
    assert not ACCESS.needs_certificate("/grpc.health.v1.Health/Check", [])
    assert not Access(lambda: Tokens.parse(f"alice read {digest('a')}")).needs_certificate(FILL, [])


def test_names_of_a_certificate_are_read_from_the_connection() -> None:
    connection = {
        "transport_security_type": [b"ssl"],
        "x509_common_name": [b"bob"],
        "x509_subject_alternative_name": [b"bob.example", b"spiffe://example/bob"],
    }
    assert certificate_names(connection) == ["bob.example", "spiffe://example/bob", "bob"]
    assert certificate_names({}) == []
