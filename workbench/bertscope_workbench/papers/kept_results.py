"""Keeps the answers of a run in a folder, so that a run that was cut short goes on: a file with a line for each test and model,
and one for each reproduction and model with a row for each item.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from bertscope import FailedPrecondition, Model, __version__
from bertscope.errors import CLIENT_SIDE, invalid_argument
from bertscope.questions.ablation.resumption import json_digest
from bertscope.values.documents import fields_of, finite
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.claim import Claim, ClaimTest
from bertscope_workbench.papers.estimates import Measured
from bertscope_workbench.papers.items import SUFFIXES
from bertscope_workbench.papers.pictures_data import number, picture_document, read_picture
from bertscope_workbench.papers.published.kept_rows import SUFFIX as ROWS
from bertscope_workbench.papers.verdicts import NOT_ASKED, JudgedTest, judge

REMEDY = "take it away, or name another page by --output"
TESTS = "tests.jsonl"
"""The file of the answers to tests."""
SHIPS = "what ships"
"""The data of a run without --data."""
BEGINNING = '{"model": '
"""The beginning of a kept answer."""


class KeptResults:
    """The folder of answers; without one, nothing is kept."""

    def __init__(self, folder: Path | None, *, resume: bool = False, stays: bool = False) -> None:
        """Reads what there is; the folder `stays` when the run is complete, or is removed. Raises FailedPrecondition for one
        that has rows without `resume`, InvalidArgument for a file that holds something else, and OSError."""
        self._folder, self._stays = folder, stays
        self._temporary: TemporaryDirectory[str] | None = None
        self._path = path = None if folder is None else folder / TESTS
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}
        self._used: set[tuple[str, ...]] = set()
        if self.answered and not resume:
            raise FailedPrecondition(
                f"{folder} has the answers of a run that was cut short; go on with them (--resume), or {REMEDY}",
                reason=CLIENT_SIDE,
            )
        if path is None or not path.exists():
            return
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            raise invalid_argument(str(path), f"holds no answers to claims; {REMEDY}") from error
        *whole, rest = text.split("\n")
        for place, line in enumerate(whole, start=1):
            row = _row_of(line)
            if row is None:
                raise invalid_argument(f"{path}, line {place}", f"is no answer to a claim; {REMEDY}")
            self._rows[(row["model"], row["claim"], row["test"], row["question"])] = row
        if rest:  # A run that was killed may have left half a line.
            if not rest.startswith(BEGINNING):
                raise invalid_argument(f"{path}, line {len(whole) + 1}", f"is no answer to a claim; {REMEDY}")
            path.write_text("".join(f"{line}\n" for line in whole), "utf-8")

    @property
    def answered(self) -> bool:
        """True if the folder has an answer."""
        return self._folder is not None and any(each.stat().st_size for each in self._folder.glob(f"*{ROWS}"))

    def begin(self, asking: Asking) -> None:
        """Looks whether the answers about a model are of these weights, data and settings. Raises FailedPrecondition."""
        now = identity(asking)
        for row in self._rows.values():
            if row["model"] == short_name(asking.model) and row["asked"] != now:
                (name, *_) = (each for each in now if row["asked"].get(each) != now[each])
                was = row["asked"].get(name)
                raise FailedPrecondition(
                    f"{self._path} can't go on: its answers about {row['model']} are of {name} {was}, and now it is "
                    f"{now[name]}; {REMEDY}",
                    reason=CLIENT_SIDE,
                )

    def find(self, asking: Asking, claim: Claim, test: ClaimTest) -> JudgedTest | None:
        """Returns the answer to a test; None if there is none yet."""
        key = (short_name(asking.model), claim.name, test.name, _question(test))
        self._used.add(key)
        return read_result(test, self._rows[key]) if key in self._rows else None

    def add(self, asking: Asking, claim: Claim, test: ClaimTest, result: JudgedTest) -> None:
        """Keeps an answer. Raises OSError."""
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        row = {
            "model": short_name(asking.model),
            "claim": claim.name,
            "test": test.name,
            "question": _question(test),
            "asked": identity(asking),
            **result_document(result),
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")

    def items(self) -> Path:
        """Returns the folder of the answers about items, which exists; without a folder, one that `close` removes."""
        if self._folder is None:
            self._temporary = self._temporary or TemporaryDirectory(prefix="bertscope-")
            return Path(self._temporary.name)
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def close(self) -> None:
        """Removes what does not stay after a run, complete or not."""
        if self._temporary is not None:
            self._temporary.cleanup()
            self._temporary = None

    def finish(self) -> None:
        """Removes the folder of a run that is complete, unless it stays, or has answers to what this run did not ask. Raises
        OSError."""
        if self._folder is None or self._stays or not self._folder.exists() or not self._rows.keys() <= self._used:
            return
        for path in self._folder.glob(f"*{ROWS}"):
            path.unlink()
        if not any(self._folder.iterdir()):
            self._folder.rmdir()


def _row_of(line: str) -> dict[str, Any] | None:
    """Returns the answer that a line holds; None if it holds none."""
    try:
        row = json.loads(line)
        texts = all(isinstance(row[name], str) for name in ("model", "claim", "test", "question", "verdict", "why"))
        numbers = row["verdict"] == NOT_ASKED or all(
            row[name] is None or isinstance(row[name], (int, float))
            for name in ("value", "control", "difference", "low", "high")
        )
        if row["verdict"] != NOT_ASKED:
            read_picture(row["picture"])
        return (
            row if texts and numbers and isinstance(row["asked"], dict) and isinstance(row["seconds"], (int, float)) else None
        )
    except (json.JSONDecodeError, KeyError, TypeError):
        return None


def identity(asking: Asking) -> dict[str, str]:
    """Returns what answers depend on beside the test: weights, runtime, precision, data, and the models compared with."""

    def weights(model: Model | None) -> str:
        return "none" if model is None else model.weights_digest

    files = [f"{path}:{path.stat().st_size}" for path in asking.data.files(*(f"*{suffix}" for suffix in SUFFIXES))]
    return {
        "bertscope": __version__,
        "weights": asking.model.weights_digest,
        "runtime": asking.model.runtime,
        "precision": asking.model.precision,
        "data": SHIPS if asking.data.folder is None else f"{asking.data.folder} {json_digest(files)}",
        "limit": str(asking.data.limit),
        "languages": ",".join(asking.languages),
        "against": weights(asking.against),
        "fine_tuned": weights(asking.fine_tuned),
    }


def result_document(result: JudgedTest) -> dict[str, Any]:
    """Returns an answer as JSON has it."""
    found = result.measured
    document: dict[str, Any] = {
        "verdict": result.verdict,
        "why": result.why,
        "p_value": number(result.p_value),
        "seconds": round(result.seconds, 2),
    }
    if found is None:
        return document
    names = "value", "difference", "low", "high", "control", "items", "data", "interval", "notes"
    return {**document, **finite(fields_of(found, *names)), "picture": picture_document(found.picture)}


def read_result(test: ClaimTest, row: Mapping[str, Any]) -> JudgedTest:
    """Returns the answer of a document, judged anew."""
    if row["verdict"] == NOT_ASKED:
        return JudgedTest(test, NOT_ASKED, None, row["why"], seconds=row["seconds"])

    def known(name: str) -> float:
        return math.nan if row[name] is None else float(row[name])

    found: dict[str, Any] = {name: known(name) for name in ("value", "difference", "low", "high")}
    found |= {name: row[name] for name in ("control", "items", "data", "interval")}
    measured = Measured(**found, notes=tuple(row["notes"]), picture=read_picture(row["picture"]))
    return judge(test, measured, row["seconds"])


def _question(test: ClaimTest) -> str:
    """Returns a digest of what is asked; thresholds may change without asking again."""
    return json_digest([test.measure, test.options])
