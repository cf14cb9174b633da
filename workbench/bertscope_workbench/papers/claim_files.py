"""Reads claims from files: a TOML file for each section of the survey, or for each paper.

An error names the file, the claim, the key and the remedy.
"""

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, cast, get_args

from bertscope.errors import invalid_argument
from bertscope.v1 import model_pb2

from bertscope_workbench.papers.claim import LANGUAGE, Claim, ClaimTest, Holds, Quoted, Rule
from bertscope_workbench.papers.keys import Keys
from bertscope_workbench.papers.measures import Measure, find_measure, measure_names, options_of, unfit
from bertscope_workbench.papers.published.readers import READERS
from bertscope_workbench.papers.published.reproduction import Reproduction, read_reproduction

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
CAPABILITIES = {name.removeprefix("CAPABILITY_").lower() for name, _ in model_pb2.Capability.items()} - {"unspecified"}
SUFFIX = ".toml"
FEW_CLAIMS = 20
"""An error names so many claims, else their sections."""
LEAST_ITEMS = 20
"""Fewer independent items can't settle a claim, unless a test says how few can."""
CHECKS = {reader: check for reader, (check, _) in READERS.items()}
UNTRAINED = "its figures are compared with published ones, whatever the model learned."
SECONDS = 5.0
"""The time of a test unless it says one."""


def shipped_reproduction(study: str, claim: str) -> Reproduction:
    """Returns a reproduction that ships, by the names of its study and its claim."""
    return next(each.reproduction for each in read_study(study, [claim]) if each.reproduction is not None)


def read_study(name: str, only: Sequence[str] = ()) -> list[Claim]:
    """Returns the claims of a paper that ships, by its name, or of a file by its path, which ends with ".toml".

    Raises InvalidArgument for a name that is none and for a broken file, and OSError for a file that can't be read.
    """
    if name.endswith(SUFFIX):
        return read_claims([Path(name)], only)
    known = studies()
    if name not in known:
        raise invalid_argument(
            "name", f"{name!r} is no study; these are: {', '.join(known)}; a file of yours ends with {SUFFIX}"
        )
    return _chosen(_read(known[name].name, known[name].read_text("utf-8")), only)


def studies() -> dict[str, Traversable]:
    """Returns the files of papers that ship, by name: those of figures to reproduce, and those of claims alone."""
    package = importlib.resources.files("bertscope_workbench.papers")
    found = [*package.joinpath("reproductions").iterdir(), *package.joinpath("claims").iterdir()]
    names = {file.name.removesuffix(SUFFIX).replace("_", "-"): file for file in found if file.name.endswith(SUFFIX)}
    return {name: names[name] for name in sorted(names) if not name[0].isdigit() and not name.startswith("since")}


def read_claims(files: Iterable[Path] = (), only: Sequence[str] = ()) -> list[Claim]:
    """Returns the shipped claims, or those of `files`, in the order of their sections; with `only`, those of these names or
    sections.

    Raises InvalidArgument for a broken file and for a name that is none, and OSError for a file that can't be read.
    """
    own = [*files]
    texts = {str(path): _text(path) for path in own} or _shipped()
    found_in: dict[str, str] = {}
    claims: list[Claim] = []
    for file, text in texts.items():
        for claim in _read(file, text):
            if claim.name in found_in:
                where = f", the other in {found_in[claim.name]}" if found_in[claim.name] != file else ""
                raise invalid_argument(
                    f"{file}: claim {claim.name}, name", f"two claims have this name{where}; name each differently"
                )
            found_in[claim.name] = file
            claims.append(claim)
    return _chosen(sorted(claims, key=_place), only)


def _chosen(claims: list[Claim], only: Sequence[str]) -> list[Claim]:
    for name in only:
        if not any(name in (claim.name, claim.section) for claim in claims):
            known = dict.fromkeys(claim.section for claim in claims)
            sections = f"--list names claims; sections: {', '.join(known)}"
            if len(claims) <= FEW_CLAIMS:
                sections = f"these are: {', '.join(claim.name for claim in claims)}"
            raise invalid_argument("only", f"{name!r} is no claim and no section; {sections}")
    return [claim for claim in claims if not only or claim.name in only or claim.section in only]


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise invalid_argument(str(path), f"is not UTF-8 ({error.reason})") from None


def _shipped() -> dict[str, str]:
    folder = importlib.resources.files("bertscope_workbench.papers").joinpath("claims")
    files = sorted((each for each in folder.iterdir() if each.name.endswith(SUFFIX)), key=lambda each: each.name)
    return {each.name: each.read_text("utf-8") for each in files}


def _place(claim: Claim) -> tuple[bool, str]:
    """Sorts sections of the survey by their numbers, then others by their names."""
    return not claim.section[0].isdigit(), claim.section


def _read(file: str, text: str) -> list[Claim]:
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise invalid_argument(file, f"is not TOML: {error}") from None
    except RecursionError:
        raise invalid_argument(file, "is not TOML of claims: its values lie too deep in each other") from None
    keys = Keys(file, "", values)
    section, title = keys.take("section", str, Path(file).name.removesuffix(SUFFIX)), keys.take("title", str)
    paper, tables = keys.take("paper", str, ""), keys.tables("claim")
    if not tables:
        raise keys.error("claim", "is missing; write one or more tables [[claim]]")
    keys.done()
    return [_claim(each, section, title, paper) for each in tables]


def _claim(keys: Keys, section: str, section_title: str, paper: str) -> Claim:
    name = keys.take("name", str)
    if not NAME.fullmatch(name):
        raise keys.error("name", f"{name!r} is no name; write small letters, digits and hyphens")
    keys = Keys(keys.file, f"claim {name}, ", keys.values)
    title = keys.take("title", str)
    tests = [_test(each) for each in keys.tables("test", above="claim.")]
    figures, data = keys.tables("published", above="claim."), keys.take("reproduction", dict, {})
    if not tests and not data:
        raise keys.error("test", "is missing; write one or more [[claim.test]], or [claim.reproduction]")
    reproduction = None
    if data:
        within = Keys(keys.file, f"{keys.where}reproduction, ", data)
        reproduction, figures = read_reproduction(within, name, title, figures, CHECKS), []
    learned = keys.take("learned", bool, bool(tests))
    found = Claim(
        name=name,
        section=section,
        section_title=section_title,
        title=title,
        claim=keys.take("claim", str),
        explained=keys.take("explained", str),
        paper=keys.take("paper", str, paper or None),
        needs=keys.texts("needs", () if tests else ("cloze",)),
        languages=keys.texts("languages", ()),
        learned=learned,
        learned_reason="" if learned else keys.take("learned_reason", str, None if tests else UNTRAINED),
        verdict=cast(Rule, keys.choice("verdict", get_args(Rule), "all")),
        tests=tests,
        published=[_published(each) for each in figures],
        reproduction=reproduction,
        found=keys.take("found", str, ""),
        figure=keys.take("figure", str, ""),
    )
    keys.done()
    for need in found.needs:
        if need not in CAPABILITIES:
            raise keys.error("needs", f"{need!r} is no capability; write some of {', '.join(sorted(CAPABILITIES))}")
    for language in found.languages:
        if not LANGUAGE.fullmatch(language):
            raise keys.error("languages", f"{language!r} is no ISO 639-1 code; write en, ko and so on")
    names = [test.name for test in tests]
    if len(set(names)) < len(names):
        raise keys.error("test", "two tests have one name; name each differently")
    if found.figure not in ("", *names):
        raise keys.error("figure", f"{found.figure!r} is no test of the claim; write one of {', '.join(names)}")
    return found


def _test(keys: Keys) -> ClaimTest:
    test: dict[str, Any] = {
        "name": keys.take("name", str),
        "measured": keys.take("measured", str),
        "unit": keys.take("unit", str),
        "control": keys.take("control", str),
        "holds": keys.choice("holds", get_args(Holds)),
        "threshold": keys.number("threshold", float),
        "reason": keys.take("reason", str),
        "least_items": keys.number("least_items", int, LEAST_ITEMS, low=1, high=1e9),
        "commands": keys.texts("commands", ()),
        "seconds": keys.number("seconds", float, SECONDS, low=0),
        "optional": keys.take("optional", bool, False),
    }
    name, options = keys.take("measure", str), keys.take("options", dict, {})
    keys.done()
    return ClaimTest(measure=name, options=options, function=_measure(keys, name, options), **test)


def _measure(keys: Keys, name: str, options: Mapping[str, Any]) -> Measure:
    """Returns the measure of a test, which takes these options."""
    measure = find_measure(name)
    if measure is None:
        known = measure_names()
        near = difflib.get_close_matches(name, known, 5) or known
        raise keys.error("measure", f"{name!r} is no measure; write one of {', '.join(near)}")
    taken = options_of(measure)
    for option in options:
        if option not in taken:
            raise keys.error("options", f"{option!r} is no option of {name}; it takes {', '.join(taken) or 'none'}")
    missing = [each for each, parameter in taken.items() if parameter.default is parameter.empty and each not in options]
    if missing:
        raise keys.error("options", f"{name} needs {', '.join(missing)}")
    for option, value in options.items():
        if (wanted := unfit(value, taken[option].annotation)) is not None:
            raise keys.error("options", f"{option} of {name} is {value!r}, and it takes {wanted}")
    return measure


def _published(keys: Keys) -> Quoted:
    found = Quoted(keys.take("model", str), keys.take("figure", str), keys.take("source", str))
    keys.done()
    return found
