"""Generate what is made from the .proto files, or check that it is fresh.

    python -m protos.generate           write it
    python -m protos.generate --check   exit 1, naming the files, if what is committed is not what would be written

The proto path is the import path: `protos/bertscope/v1/cloze.proto` becomes `bertscope.v1.cloze_pb2` in `client/`, so no import
needs mending afterwards. The generator is pinned in pyproject.toml: code from newer ones refuses protobuf 6. Beside the modules
and their type stubs it writes the descriptors by which Envoy turns JSON into calls.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from google.api import annotations_pb2

ROOT = Path(__file__).resolve().parents[1]
PROTOS = ROOT / "protos"
GOOGLEAPIS = Path(annotations_pb2.__file__).parents[2]
"""Where googleapis-common-protos has put google/api/annotations.proto, which says how a call looks over plain HTTP."""

DESCRIPTORS = Path("deploy/envoy/bertscope.binpb")
ERROR_DETAILS = "google/rpc/error_details.proto"
"""Part of the descriptors: without it Envoy could not write what an error carries."""

INIT = '"""Generated from protos/{package}: messages and stubs of the wire contract. Do not edit; run `make protos`."""\n'


def protoc(protos: Path, *arguments: str) -> None:
    """Run protoc on all .proto files of a folder, and on those of googleapis among the arguments."""
    paths = [f"--proto_path={folder}" for folder in (protos, GOOGLEAPIS)]
    sources = sorted(str(path.relative_to(protos)) for path in protos.rglob("*.proto"))
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *paths, *arguments, *sources], check=True)


def generate(into: Path) -> dict[Path, bytes]:
    """Run protoc; the generated files by their paths in the repository, each package with its `__init__.py`."""
    client = into / "client"
    for folder in (client, (into / DESCRIPTORS).parent):
        folder.mkdir(parents=True)
    # protoc looks for plugins on PATH, where a virtual environment need not be.
    scripts = Path(sysconfig.get_path("scripts"))
    protoc(
        PROTOS,
        *(f"--plugin={name}={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")),
        f"--python_out={client}",
        f"--grpc_python_out={client}",
        f"--mypy_out=quiet:{client}",
        f"--mypy_grpc_out=quiet:{client}",
    )
    protoc(PROTOS, "--include_imports", f"--descriptor_set_out={into / DESCRIPTORS}", ERROR_DETAILS)
    for package in {path.parent for path in client.rglob("*.py")}:
        (package / "__init__.py").write_text(INIT.format(package=package.relative_to(client).as_posix()))
    return {path.relative_to(into): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def committed(folders: set[Path]) -> dict[Path, bytes]:
    """What lies where the generated files do."""
    modules = (path for folder in folders - {DESCRIPTORS.parent} for path in (ROOT / folder).glob("*.py*"))
    files = [path for path in (*modules, ROOT / DESCRIPTORS) if path.is_file()]
    return {path.relative_to(ROOT): path.read_bytes() for path in files}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a committed file is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        wanted = generate(Path(folder))
    found = committed({path.parent for path in wanted})
    stale = sorted(path for path in wanted.keys() | found.keys() if wanted.get(path) != found.get(path))
    if check:
        for path in stale:
            print(f"stale: {path}; run `make protos`", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        if path in wanted:
            (ROOT / path).parent.mkdir(parents=True, exist_ok=True)
            (ROOT / path).write_bytes(wanted[path])
        else:
            (ROOT / path).unlink()
    print(f"{len(wanted)} files, {len(stale)} changed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
