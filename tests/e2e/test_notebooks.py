"""The notebooks of examples/ run from their first cell to their last, and show numbers."""

import re
from contextvars import copy_context
from pathlib import Path

import jupytext
import pytest
from nbclient import NotebookClient

from tests.support.patience import granted

pytestmark = pytest.mark.slow

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.py"))


@pytest.mark.timeout(granted(400))
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_numbers(path: Path) -> None:
    notebook = jupytext.read(path)
    client = NotebookClient(
        notebook, timeout=int(granted(300)), kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    )
    copy_context().run(client.execute)  # else its event loop would stay in the context of this thread
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"][1:-1]
    assert len(cells) >= 3
    for cell in cells:
        shown = "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)
        assert re.search(r"\d", shown), cell.source
