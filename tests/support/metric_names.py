"""The metrics of a server, as the page about watching lists them: exports, dashboards and alerts are compared with them."""

import re
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "watching.md").read_text(encoding="utf-8")
METRIC_NAMES = frozenset(re.findall(r"`(bertscope_\w+)`", PAGE))
