"""Messages of libraries are lines of the log, in its format."""

import json
import subprocess
import sys

import pytest

from tests.support.patience import granted

PROGRAM = """
import logging, warnings
from bertscope_service.observability import logs
from bertscope_service.rpc import native_environment
native_environment.prepare()
logs.configure("json", "info")
import huggingface_hub, transformers
logs.adopt_libraries()
from transformers.utils import logging as theirs
theirs.get_logger("transformers.models.bert").warning("a model of theirs")
logging.getLogger("huggingface_hub.file_download").warning("a file of theirs")
warnings.warn("something old")
for _ in theirs.tqdm(range(3)):
    pass
"""


@pytest.mark.slow
def test_every_line_is_json() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=granted(110), check=True)
    lines = [json.loads(line) for line in run.stderr.splitlines() if line]
    said = {line["logger"]: line["message"] for line in lines}
    assert said["transformers.models.bert"] == "a model of theirs"
    assert said["huggingface_hub.file_download"] == "a file of theirs"
    assert "something old" in said["py.warnings"]
    assert run.stdout == ""
