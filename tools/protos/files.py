"""Runs protoc on the .proto files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from google.api import annotations_pb2

ROOT = Path(__file__).resolve().parents[2]
PROTOS = ROOT / "protos"
GOOGLEAPIS = Path(annotations_pb2.__file__).parents[2]
"""The folder of googleapis-common-protos with google/api/annotations.proto, which maps calls to plain HTTP."""


def protoc(protos: Path, *arguments: str) -> None:
    """Runs protoc on all .proto files of a folder, and on those of googleapis among the arguments."""
    paths = [f"--proto_path={folder}" for folder in (protos, GOOGLEAPIS)]
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *paths, *arguments, *sources], check=True)
