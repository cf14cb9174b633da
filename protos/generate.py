"""Generate client/bertscope/v1 from the .proto files, or check that it is fresh.

    python protos/generate.py           write the generated modules and their type stubs
    python protos/generate.py --check   exit 1, naming the files, if what is committed is not what would be written

The proto path is the wire package is the import path: `protos/bertscope/v1/cloze.proto` becomes `bertscope.v1.cloze_pb2`, so no
import needs mending afterwards. The generator is pinned in pyproject.toml: code from newer ones refuses protobuf 6.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

PROTOS = Path(__file__).resolve().parent
TARGET = PROTOS.parent / "client" / "bertscope" / "v1"
INIT = '"""Generated from protos/bertscope/v1: messages and stubs of the wire contract. Do not edit; run `make protos`."""\n'


def generate(into: Path) -> dict[str, bytes]:
    """Run protoc; the generated files by name, with the package's `__init__.py`."""
    sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("bertscope/v1/*.proto"))
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={PROTOS}"]
    # protoc looks for plugins on PATH, where a virtual environment need not be.
    command += [
        f"--plugin={name}={Path(sysconfig.get_path('scripts')) / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")
    ]
    command += [
        f"--python_out={into}",
        f"--grpc_python_out={into}",
        f"--mypy_out=quiet:{into}",
        f"--mypy_grpc_out=quiet:{into}",
    ]
    subprocess.run([*command, *sources], check=True)
    files = {path.name: path.read_bytes() for path in sorted((into / "bertscope" / "v1").iterdir()) if path.is_file()}
    return {"__init__.py": INIT.encode(), **files}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the committed code is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        wanted = generate(Path(folder))
    found = {path.name: path.read_bytes() for path in TARGET.glob("*.py*") if path.is_file()} if TARGET.is_dir() else {}
    stale = sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name))
    if check:
        for name in stale:
            print(f"stale: {TARGET / name}; run `make protos`", file=sys.stderr)
        return 1 if stale else 0
    TARGET.mkdir(parents=True, exist_ok=True)
    for name in stale:
        if name in wanted:
            (TARGET / name).write_bytes(wanted[name])
        else:
            (TARGET / name).unlink()
    print(f"{len(wanted)} files in {TARGET.relative_to(PROTOS.parent)}, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
