"""What goes with each call of a client: where a token may go, and what can't be one; the headers of a caller's trace."""

import hashlib
import json
import socket
from contextvars import ContextVar, copy_context
from pathlib import Path

import bertscope
import pytest
from bertscope.rpc.credentials import ChannelSecurity, propagating, stays_here
from bertscope_workbench.command.app import run

from tests.support.patience import granted

SECRET = "token-of-nobody-else"
FAR = "bert.example:50051"


@pytest.mark.parametrize("make", [bertscope.Client, bertscope.AsyncClient])
def test_a_token_goes_elsewhere_only_encrypted_or_when_told(make: type[bertscope.Client]) -> None:
    with pytest.raises(bertscope.InvalidArgument, match="clear text") as caught:
        make(FAR, token=SECRET)
    assert SECRET not in str(caught.value)
    make(FAR, token=SECRET, tls=bertscope.Tls())
    make(FAR, token=SECRET, insecure_token=True)
    make("127.0.0.1:1", token=SECRET)
    with pytest.raises(bertscope.InvalidArgument, match="exclude each other"):
        make(FAR, tls=bertscope.Tls(), credentials=bertscope.Tls().channel_credentials())


def test_a_token_in_clear_text_goes_through_no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        with bertscope.Client("127.0.0.1:1", token=SECRET) as client, pytest.raises(bertscope.Unavailable):
            client.unload_model("models/none", timeout=granted(20))
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()


def test_a_token_is_asked_for_before_every_call() -> None:
    tokens = iter(["one", "two"])
    security = ChannelSecurity.of("localhost", lambda: next(tokens), None, None, insecure_token=False)
    assert security.metadata() == (("authorization", "Bearer one"),)
    assert security.metadata() == (("authorization", "Bearer two"),)
    assert SECRET not in repr(ChannelSecurity.of("localhost", SECRET, None, None, insecure_token=False))


def test_files_of_tls_belong_together(tmp_path: Path) -> None:
    with pytest.raises(bertscope.InvalidArgument, match="belong together"):
        bertscope.Tls(certificate="c.pem")
    with pytest.raises(FileNotFoundError):
        bertscope.Client(FAR, tls=bertscope.Tls(ca=tmp_path / "none"))
    (tmp_path / "key").write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(bertscope.InvalidArgument, match="key holds no certificate in PEM"):
        bertscope.Client(FAR, tls=bertscope.Tls(ca=tmp_path / "key"))
    assert bertscope.Tls(server_name="bert.example").channel_options()["grpc.ssl_target_name_override"] == "bert.example"


def test_the_command_adds_lines_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "alice", "--role", "admin", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["line"] == f"alice admin sha256:{hashlib.sha256(printed['token'].encode()).hexdigest()}"
    assert len(printed["token"]) == 43
    assert run(["token", "alice"]) == 0
    _, token, _, line = capsys.readouterr().out.splitlines()
    assert line == f"alice read sha256:{hashlib.sha256(token.encode()).hexdigest()}"
    assert token != printed["token"]
    file = tmp_path / "tokens"
    file.write_text("# by hand")
    made = []
    for name in ("alice", "bob"):
        assert run(["token", name, "--tokens-file", str(file)]) == 0
        made.append((name, capsys.readouterr().out.strip()))
    assert file.read_text().splitlines() == [
        "# by hand",
        *(f"{name} read sha256:{hashlib.sha256(token.encode()).hexdigest()}" for name, token in made),
    ]
    assert run(["token", "carol", "--tokens-file", str(tmp_path)]) == 1
    assert "can't be written" in capsys.readouterr().err


HERE = "127.0.0.1:50051 localhost:50051 [::1]:50051 ::1 127.0.0.1 dns:///localhost:1 dns:localhost:1 dns://8.8.8.8/127.0.0.1:1"
HERE += " ipv4:127.0.0.1:1,127.0.0.2:2 ipv6:[::1]:1 unix:/tmp/socket unix:///tmp/socket unix-abstract:name"
ELSEWHERE = (
    "bert.example:50051 10.0.0.1:1 0.0.0.0:1 [2001:db8::1]:1 localhost.example:1 127.0.0.1.example:1 dns:///bert.example:1"
)
ELSEWHERE += " dns://127.0.0.1/bert.example:1 ipv4:127.0.0.1:1,10.0.0.1:1 xds:///localhost dns://8.8.8.8/localhost:1"


def test_targets_on_this_machine_and_elsewhere() -> None:
    assert [target for target in HERE.split() if not stays_here(target)] == []
    assert [target for target in [*ELSEWHERE.split(), ""] if stays_here(target)] == []


def test_what_cannot_be_a_token_is_refused_and_not_repeated() -> None:
    for token in ("", "two words", "line\n", "schlüssel", "\x00"):
        with bertscope.Client("127.0.0.1:1", token=token) as client, pytest.raises(bertscope.InvalidArgument) as caught:
            client.list_models()
        assert "token: must be printable" in str(caught.value)
        assert not token or token not in str(caught.value)


TRACE: ContextVar[str] = ContextVar("trace")


def inject(headers: dict[str, str]) -> None:
    if trace := TRACE.get(""):
        headers["traceparent"] = trace


def token() -> tuple[tuple[str, str], ...]:
    return (("authorization", "Bearer x"),)


def test_the_context_is_that_of_the_moment_of_the_call() -> None:
    metadata = propagating(token, inject)
    assert metadata() == token()
    for trace in ("a", "b"):
        reset = TRACE.set(trace)
        assert metadata() == (*token(), ("traceparent", trace))
        TRACE.reset(reset)


def test_without_a_token_only_the_context_goes() -> None:
    metadata = propagating(lambda: None, inject)
    assert metadata() == ()
    call = copy_context()
    call.run(TRACE.set, "a")
    assert call.run(metadata) == (("traceparent", "a"),)
