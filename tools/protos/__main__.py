"""Generates files from the .proto files, or checks that they are fresh.

    python -m tools.protos           write it
    python -m tools.protos --check   exit 1, naming the files, if what is committed is not what would be written

The proto path is the import path: `protos/bertscope/v1/cloze.proto` becomes `bertscope.v1.cloze_pb2` in `client/`, so no import
needs rewriting. The generator is pinned in pyproject.toml: code from newer ones rejects protobuf 6. The modules lack the
rules of fields, and so need no package with buf/validate/validate.proto. Beside the modules and their type stubs it writes the
contract's descriptors, with which Envoy turns JSON into calls and the Node example makes its clients; the files that derived.py
makes from the rpcs' options; the service's checks of fields and the tables of docs/fields.md, from the rules of fields; fields
of the client's classes (classes.py); the tables of docs/errors.md from reasons.txt; and the description of JSON over HTTP by
OpenAPI (openapi.py), which agents' tools are made from.
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.protos import checks, classes, contract, derived, openapi, reasons, rules, tables
from tools.protos.files import PROTOS, ROOT, described, run_protoc, without_comments, without_rules
from tools.protos.sections import filled

ENVOY, NODE = Path("deploy/envoy/bertscope.binpb"), Path("examples/node/bertscope.binpb")
DESCRIPTORS = (ENVOY, NODE)
"""One copy for each folder that has to work when it is copied without this repository. Node's has the rules of fields."""

ERROR_DETAILS = "google/rpc/error_details.proto"
"""Part of the descriptors: without it Envoy could not write the details of an error."""

FIELDS = Path("docs/fields.md")

INIT = '"""Generated from protos/{package}: messages and stubs of the wire contract. Do not edit; run `make protos`."""\n'


def generate(into: Path) -> tuple[dict[Path, bytes], Any]:
    """Runs protoc. Returns the generated files by their paths in the repository, each package with its `__init__.py`, and the
    descriptors of the contract."""
    client, contract = into / "client", described(PROTOS, "--include_source_info", ERROR_DETAILS)
    client.mkdir()
    plain = without_rules(contract)
    descriptors = into / "contract.binpb"
    descriptors.write_bytes(plain.SerializeToString())
    # protoc looks for plugins on PATH, where a virtual environment need not be.
    scripts = Path(sysconfig.get_path("scripts"))
    run_protoc(
        f"--descriptor_set_in={descriptors}",
        *(f"--plugin={name}={scripts / name}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")),
        f"--python_out={client}",
        f"--grpc_python_out={client}",
        f"--mypy_out=quiet:{client}",
        f"--mypy_grpc_out=quiet:{client}",
        *(file.name for file in plain.file if file.name.startswith("bertscope/")),
    )
    for package in {path.parent for path in client.rglob("*.py")}:
        (package / "__init__.py").write_text(INIT.format(package=package.relative_to(client).as_posix()))
    files = {path.relative_to(into): path.read_bytes() for path in client.rglob("*") if path.is_file()}
    return files | {ENVOY: without_comments(plain), NODE: without_comments(contract)}, contract


def committed(folders: set[Path]) -> dict[Path, bytes]:
    """Returns the files in the generated files' folders."""
    packages = folders - {path.parent for path in DESCRIPTORS}
    modules = (path for folder in packages for path in (ROOT / folder).glob("*.py*"))
    files = [path for path in (*modules, *(ROOT / path for path in DESCRIPTORS)) if path.is_file()]
    return {path.relative_to(ROOT): path.read_bytes() for path in files}


def pages(rpcs: Sequence[contract.Rpc], fields: rules.Contract) -> dict[Path, bytes]:
    """Returns the up-to-date files that are made from the rpcs' options, the rules of fields, and reasons.txt."""
    written = {path: write((ROOT / path).read_text(encoding="utf-8"), rpcs) for path, write in derived.PAGES.items()}
    written |= {derived.SERVICE_CONFIG: derived.service_config(rpcs), reasons.PAGE: reasons.errors_page()}
    written |= {checks.MODULE: checks.module(fields), FIELDS: fields_page(fields)}
    return {path: text.encode() for path, text in written.items()}


def fields_page(fields: rules.Contract) -> str:
    """Returns docs/fields.md with its tables."""
    text = (ROOT / FIELDS).read_text(encoding="utf-8")
    return filled(filled(text, "requests", tables.requests(fields)), "messages", tables.messages(fields))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a committed file is stale")
    check = parser.parse_args().check
    with tempfile.TemporaryDirectory() as folder:
        wanted, described_contract = generate(Path(folder))
    rpcs = contract.read(described_contract)
    found = committed({path.parent for path in wanted})
    derivatives = pages(rpcs, rules.read(described_contract))
    derivatives |= {path: text.encode() for path, text in classes.sections(described_contract).items()}
    derivatives[openapi.PATH] = openapi.document(described_contract, rpcs, rules.read(described_contract)).encode()
    wanted |= derivatives
    found |= {path: (ROOT / path).read_bytes() for path in derivatives if (ROOT / path).is_file()}
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
