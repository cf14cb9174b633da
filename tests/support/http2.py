"""Just enough of HTTP/2 (RFC 9113) and of header compression (RFC 7541) to send what no library would."""

import socket
from typing import Self

from tests.support.patience import granted

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, SETTINGS, CONTINUATION = 0x0, 0x1, 0x2, 0x4, 0x9
END_STREAM, END_HEADERS = 0x1, 0x4
MAX_FRAME = 16_384
"""Largest payload of a frame, bytes, unless the settings say otherwise."""

STREAM = 1
SECONDS = granted(20.0)


class Connection:
    """A connection to a gRPC server over which frames are sent as they are."""

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self.received = b""
        self._socket.sendall(PREFACE + frame(SETTINGS, 0, b"", stream=0))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, kind: int, flags: int, payload: bytes) -> None:
        """Raises OSError once the server has closed the connection."""
        self._socket.sendall(frame(kind, flags, payload))

    def send_settings(self, settings: bytes) -> None:
        self.send_frames(frame(SETTINGS, 0, settings, stream=0))

    def send_frames(self, frames: bytes) -> None:
        """Send whole frames, of any stream. Raises OSError once the server has closed the connection."""
        self._socket.sendall(frames)

    def receive_until(self, wanted: bytes) -> bool:
        """Whether the server sends this before it closes the connection. Raises TimeoutError."""
        while wanted not in self.received:
            part = self._socket.recv(65_536)
            if not part:
                return False
            self.received += part
        return True


def frame(kind: int, flags: int, payload: bytes, *, stream: int = STREAM) -> bytes:
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def literal(name: str, value: str) -> bytes:
    """A header field that nobody shall remember."""
    return b"\0" + _string(name) + _string(value)


def request(path: str, authority: str) -> bytes:
    """The header fields of a gRPC call."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": authority, "te": "trailers"}
    return b"".join(literal(*field) for field in (fields | {"content-type": "application/grpc"}).items())


def status(code: int) -> bytes:
    """How gRPC's core writes the trailing field with a status: as a literal, without Huffman's code."""
    return _string("grpc-status") + _string(str(code))


def _string(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape")  # so that a test can name bytes that are no text
    assert len(raw) < 127, "longer ones need more than a byte for their length"
    return bytes([len(raw)]) + raw
