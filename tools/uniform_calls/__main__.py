"""Generates calls of usual shapes, from the contract and short declarations; or checks them.

    python -m tools.uniform_calls           writes questions/ROOM/calls.py
    python -m tools.uniform_calls --check   exits with 1, naming the files, if what is committed is not what would be written

A declaration (`bertscope.rpc.uniform`) is a method of a module `uniform.py`. The generated one has, in this order, the
declared arguments that are given by position; `model` and one for each other field of the request, in the order of the
contract; the other declared ones; interventions, reference texts and `truncate`; what the shape takes. A declared argument with
the name of a field has its own type and default. Fields that items are made of are no arguments, nor are those with
messages. Functions that make or read items may also take the `request`. The docstring ends with a list of the arguments
(arguments.py).
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.async_to_sync import CLIENT
from tools.generated_files import run
from tools.protos import classes
from tools.protos.files import PROTOS, described
from tools.protos.rules import read
from tools.uniform_calls.modules import Declarations


def generated() -> dict[Path, str]:
    """Returns every generated module, by its path."""
    files = described(PROTOS, "--include_source_info")
    contract, fields = read(files), classes.read(files)
    declared = (Declarations(path, contract, fields) for path in sorted(CLIENT.glob("questions/*/uniform.py")))
    return {declarations.generated: declarations.methods() for declarations in declared}


def main() -> int:
    """Runs the command and returns the exit code."""
    return run(__doc__, generated, "the declarations make")


if __name__ == "__main__":
    sys.exit(main())
