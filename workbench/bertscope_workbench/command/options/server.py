"""Defines the options of every command that calls a server: its address, the caller's credentials, the connection."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from bertscope import BertscopeError, DeadlineExceeded, InvalidArgument, Tls, Unauthenticated, Unavailable
from bertscope.rpc.channel import DEFAULT_TIMEOUT_SECONDS
from bertscope.rpc.targets import DEFAULT_TARGET

from bertscope_workbench.command.groups import option
from bertscope_workbench.command.views.output import Failure, UsageError

if TYPE_CHECKING:
    from bertscope import AsyncClient, Client

TOKEN_VARIABLE = "BERTSCOPE_TOKEN"

Made = TypeVar("Made")


def _option(written: str, text: str, **more: Any) -> Any:
    """Returns an option that may be a variable, too: BERTSCOPE_TOKEN_FILE for --token-file."""
    name = written.split(" ")[0].removeprefix("--").replace("-", "_").upper()
    return option(written, text, envvar=f"BERTSCOPE_{name}", rich_help_panel="Server", **more)


@dataclass(frozen=True)
class ServerOptions:
    """The server, and the caller's credentials. A token comes from a file or the environment: others can see command lines."""

    target: str = _option("--target HOST:PORT,...", "The server to call; several share the work.", default=DEFAULT_TARGET)
    token_file: Path | None = _option(
        "--token-file FILE", f"File with the caller's token; else ${TOKEN_VARIABLE}.", field="token"
    )
    insecure_token: bool = _option("--insecure-token", "Send it unencrypted, also to other machines.", default=False)
    tls: bool = _option("--tls", "Connect with TLS; the next four options imply it.", default=False)
    ca: Path | None = _option("--ca FILE", "Authorities that the server's certificate comes from.")
    certificate: Path | None = _option("--certificate FILE", "The caller's own certificate.", needs="key")
    key: Path | None = _option("--key FILE", "Its private key.", needs="certificate")
    server_name: str | None = _option("--server-name NAME", "Name in the server's certificate, if not HOST.")

    @contextmanager
    def connect(self, timeout: float | None = None) -> Iterator[Client]:
        """Yields a client; a failure to reach the server becomes a line that says what to do."""
        with self._client(timeout or DEFAULT_TIMEOUT_SECONDS) as client:
            try:
                yield client
            except Unauthenticated as error:
                if error.reason != "TOKEN_MISSING":
                    raise
                advice = (
                    f"give yours with --token-file FILE or ${TOKEN_VARIABLE}, or a certificate with --certificate and --key"
                )
                raise Failure(f"the server at {self.target} answers callers that it knows; {advice}") from error
            except Unavailable as error:
                if error.reason:  # A server did answer, and said why it can't serve.
                    raise
                explained, known, _ = error.message.partition(" (gRPC: ")
                line = f"{explained}{_how_to_go_on(error)}" if known else f"cannot reach a server at {self.target}: {error}"
                raise Failure(line) from error
            except DeadlineExceeded as error:
                limit = f" within {timeout:g} s" if timeout else ""
                line = f"no answer from {self.target}{limit}; allow more with --timeout{_how_to_go_on(error)}"
                raise Failure(line) from error

    def asynchronous(self) -> AsyncClient:
        """Returns a client that tries nothing again, for a page that says so itself when a call fails."""
        from bertscope.aio import AsyncClient  # asyncio's client takes time to import

        return self._made(lambda **identity: AsyncClient(self.target, retries=0, **identity))

    def connection(self, kind: Callable[..., Made]) -> Made:
        """Returns a connection of another kind than the clients."""
        return self._made(lambda **identity: kind(self.target, **identity))

    def has_identity(self) -> bool:
        """Says whether calls have a token or a certificate, and so rights that others may lack."""
        return self.token_file is not None or bool(os.environ.get(TOKEN_VARIABLE)) or self.certificate is not None

    def _client(self, timeout: float) -> Client:
        from bertscope import Client

        return self._made(lambda **identity: Client(self.target, timeout=timeout, **identity))

    def _made(self, make: Callable[..., Made]) -> Made:
        try:
            return make(token=self._token(), tls=self._tls(), insecure_token=self.insecure_token)
        except OSError as error:
            raise UsageError(f"{error.filename}: {error.strerror}") from error
        except InvalidArgument as error:
            raise UsageError(str(error)) from error

    def _token(self) -> str | None:
        if self.token_file is None:
            return os.environ.get(TOKEN_VARIABLE) or None  # some users unset a variable by setting it to ""
        # A file of other bytes is rejected as a token, without quoting it.
        return self.token_file.read_text(encoding="utf-8", errors="replace").strip()

    def _tls(self) -> Tls | None:
        if not (self.tls or self.ca or self.certificate or self.key or self.server_name):
            return None
        return Tls(self.ca, self.certificate, self.key, self.server_name)


def _how_to_go_on(error: BertscopeError) -> str:
    """Returns what the command noted at the error: which rows there are, and how to get the rest."""
    return "".join(getattr(error, "__notes__", ()))
