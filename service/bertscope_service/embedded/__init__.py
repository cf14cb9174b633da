"""The model that comes with the package."""

from pathlib import Path

EMBEDDED = "bertscope-mini"
"""Its name, as a source."""

EMBEDDED_FOLDER = Path(__file__).parent / EMBEDDED
