"""Measures the cost of TLS, mutual TLS and tokens: the same calls to servers that are otherwise equal."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import tempfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import bertscope
import numpy as np
import trustme

from benchmarks.lib.background import OWN_CONNECTION, TEXT
from benchmarks.lib.measure import Claim, all_in_turn, milliseconds, share
from benchmarks.lib.options import ROUNDS
from benchmarks.lib.serving import Running, serving
from benchmarks.lib.texts import texts_of_lengths

OPTIONS = (ROUNDS,)
CALLS = 100
CONNECTIONS = 20
STREAMED = texts_of_lengths([256] * 8, mask=False)
"""Texts with 151 MB of attention maps of the embedded model: 6 layers, 12 heads, 256 x 256."""


@dataclass(frozen=True, slots=True)
class Side:
    """A server with some flags, and a caller that it admits."""

    name: str
    flags: Sequence[str]
    tls: bertscope.Tls | None = None
    token: str | None = None


@dataclass(frozen=True, slots=True)
class Connected:
    """A running side, with a connection that stays open."""

    side: Side
    server: Running
    client: bertscope.Client

    def call(self) -> None:
        """Makes small cloze calls, one after the other."""
        for _ in range(CALLS):
            self.client.fill_mask(TEXT)

    def stream(self) -> None:
        """Streams the attention maps of all texts."""
        for _ in self.client.extract_attention(STREAMED):
            pass

    def connect(self) -> None:
        """Opens new connections, each with its handshake and a call that computes nothing."""
        for _ in range(CONNECTIONS):
            with _client(self.side, self.server, [OWN_CONNECTION]) as client:
                client.get_model()


def claims(options: Namespace) -> Iterator[Claim]:
    """Measures, for each kind of work, the time on each side over that in clear text without tokens, all in turn."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        plain, *others = (stack.enter_context(_asked(side)) for side in _sides(Path(name)))
        for other in others:
            _check_answers(plain, other)
        works: dict[str, tuple[Callable[[Connected], None], int, str]] = {
            "a small cloze call": (Connected.call, CALLS, "at most 1.1"),
            "a stream of 151 MB of attention": (Connected.stream, 1, "at most 1.25"),
            "a new connection and its first call": (Connected.connect, CONNECTIONS, "at most 5"),
        }
        for what, (work, times, goal) in works.items():
            for asked in (plain, *others):
                work(asked)
            pairs = all_in_turn(partial(work, plain), [partial(work, other) for other in others], options.rounds)
            for other, pair in zip(others, pairs, strict=True):
                ours, theirs = ([taken / times for taken in side] for side in (pair.theirs, pair.ours))
                yield share(f"{what}, with {other.side.name} / in clear text, for anyone", ours, theirs, milliseconds, goal)


def _sides(folder: Path) -> list[Side]:
    """Returns the sides, the one in clear text without tokens first."""
    authority = trustme.CA()
    for name, issued in (("server", authority.issue_cert("127.0.0.1")), ("client", authority.issue_cert("client.example"))):
        (folder / f"{name}.key").write_bytes(issued.private_key_pem.bytes())
        (folder / f"{name}.crt").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (folder / "ca.crt").write_bytes(authority.cert_pem.bytes())
    token, certified = secrets.token_urlsafe(32), folder / "certified"
    (folder / "tokens").write_text(f"caller read sha256:{hashlib.sha256(token.encode()).hexdigest()}\n")
    certified.write_text("caller read certificate:client.example\n")
    encrypted = ["--tls-certificate", str(folder / "server.crt"), "--tls-key", str(folder / "server.key")]
    mutual = [*encrypted, "--tls-client-ca", str(folder / "ca.crt")]
    one_way = bertscope.Tls(folder / "ca.crt")
    both_ways = bertscope.Tls(folder / "ca.crt", folder / "client.crt", folder / "client.key")
    return [
        Side("nothing", []),
        Side("tokens", ["--tokens-file", str(folder / "tokens")], token=token),
        Side("TLS", encrypted, one_way),
        Side("mutual TLS", mutual, both_ways),
        Side("mutual TLS and roles by certificate", [*mutual, "--tokens-file", str(certified)], both_ways),
    ]


@contextlib.contextmanager
def _asked(side: Side) -> Iterator[Connected]:
    with serving(*side.flags, tls=side.tls) as server, _client(side, server) as client:
        yield Connected(side, server, client)


def _client(side: Side, server: Running, options: Sequence[tuple[str, int]] = ()) -> bertscope.Client:
    return bertscope.Client(server.target, token=side.token, tls=side.tls, options=options)


def _check_answers(plain: Connected, other: Connected) -> None:
    """Raises an error unless both sides give the same answers."""
    ours, theirs = (asked.client.fill_mask(TEXT)[0].masks[0].predictions for asked in (other, plain))
    assert ours == theirs
    first, second = (next(asked.client.extract_attention(STREAMED[:1])).attention for asked in (other, plain))
    np.testing.assert_array_equal(first, second)
