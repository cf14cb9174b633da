"""Parses changes at sites: "3:vector.npy@masks=2", "state:3@1-2=The key to", "neurons:4:17,99=0", "2:0,3@masks>first"."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import bertscope
import typer
from bertscope import InvalidArgument, PositionKind, Site, SiteIntervention

from bertscope_workbench.command.groups import Miswritten, each, read
from bertscope_workbench.command.options.specifications import number, numbers
from bertscope_workbench.readers.embedded_codes import read_codes

PLACE = re.compile(r"(?P<site>[a-z-]+):(?P<layer>[^:@=]+)(?::(?P<units>[^:@=]+))?(?:@(?P<positions>[^=]+))?")
FILE = re.compile(r"(?P<layer>[^:]+):(?P<file>.+?)(?:@(?P<positions>[^@=]+))?(?:=(?P<strength>[^@=]+))?")
EDGES = re.compile(r"(?P<layer>[^:@]+)(?::(?P<units>[^:@]+))?@(?P<queries>[^@>]+)>(?P<keys>[^@>]+)")
KINDS = {kind.replace("_", "-"): kind for kind in get_args(PositionKind)}
SITES: dict[str, Site] = {site.replace("_", "-"): site for site in get_args(Site)}
CODE = "code:"
"""The beginning of units of sparse codes."""
POSITIONS = "write all, masks, first, special, not-special, tokens such as 3 or 1-2,5, or characters of the text such as 4..8"


def add(value: str) -> SiteIntervention:
    """Returns the addition of LAYER:FILE.npy[@POSITIONS][=STRENGTH]."""
    found = _matched(FILE, value, "LAYER:VECTOR.npy, then maybe @POSITIONS and =STRENGTH")
    strength = None if found["strength"] is None else _factor(found["strength"])
    vector = read_arrays(Path(found["file"]))
    return bertscope.add(number(found["layer"]), vector, strength=strength, positions=positions(found["positions"]))


def erase(value: str) -> SiteIntervention:
    """Returns the erasure of LAYER:FILE.npz[@POSITIONS]: a file of `bertscope erase`, or arrays left, right and maybe mean."""
    return _erasure(value, random=False)


def erase_random(value: str) -> SiteIntervention:
    """Returns the control of LAYER:FILE.npz[@POSITIONS]: the random subspace of a file of `bertscope erase`."""
    return _erasure(value, random=True)


def _erasure(value: str, *, random: bool) -> SiteIntervention:
    found = _matched(FILE, value, "LAYER:ERASER.npz, then maybe @POSITIONS")
    path, layer = Path(found["file"]), number(found["layer"])
    arrays, place = read_arrays(path), positions(found["positions"])
    if isinstance(arrays, dict) and "about" in arrays and found["strength"] is None:
        try:
            eraser = bertscope.Eraser.load(path)
            return eraser.random_change(layer, place) if random else eraser.change(layer, place)
        except KeyError as error:
            raise Miswritten(f"{error.args[0]}") from error
    if found["strength"] is not None or random or not isinstance(arrays, dict) or not {"left", "right"} <= {*arrays}:
        raise Miswritten("the file must be what bertscope erase --save wrote, or have left and right")
    parts = [arrays[name] for name in ("left", "right", "mean") if name in arrays]
    return bertscope.erase(layer, tuple(parts), positions=place)


def patch(value: str) -> SiteIntervention:
    """Returns the patch of SITE:LAYER[:UNITS][@POSITIONS]=TEXT."""
    place, _, text = value.partition("=")
    site, layer, units, where = _place(place, "SITE:LAYER[:UNITS][@POSITIONS]=TEXT")
    if not text.strip():
        raise Miswritten("write the other text after =, as in state:3@1-2=The key to")
    return bertscope.patch(layer, text, site=site, units=units, positions=where)


def scale_site(value: str, *, codes: Path | None = None) -> SiteIntervention:
    """Returns the scaling of SITE:LAYER[:UNITS][@POSITIONS]=FACTOR; `codes` is the file of units "code"."""
    place, _, factor = value.rpartition("=")
    if place.startswith(CODE):
        found = _matched(PLACE, place, f"{CODE}LAYER[:CODES][@POSITIONS]=FACTOR")
        kept = codes_of(codes)
        layer, numbers = number(found["layer"]), units_of(found["units"])
        if layer != kept.layer:
            raise Miswritten(f"the codes of {codes} are of state {kept.layer}; write {CODE}{kept.layer}")
        where = positions(found["positions"] or "not-special")
        return kept.change(numbers, factor=_factor(factor), positions=where)
    site, layer, units, where = _place(place, "SITE:LAYER[:UNITS][@POSITIONS]=FACTOR")
    return bertscope.scale_site(layer, units, site=site, factor=_factor(factor), positions=where)


def code_changes(path: Path | None, *, alone: bool) -> Iterator[SiteIntervention]:
    """Yields the change that puts the sum of the codes of a file in place of states, if codes are `alone`."""
    if alone:
        yield read("--codes-alone", lambda value: codes_of(path), "").reconstruct()


def mean_site(value: str) -> SiteIntervention:
    """Returns the mean of SITE:LAYER[:UNITS][@POSITIONS]."""
    site, layer, units, where = _place(value, "SITE:LAYER[:UNITS][@POSITIONS]")
    return bertscope.mean_site(layer, units, site=site, positions=where)


def block(value: str) -> SiteIntervention:
    """Returns the knockout of LAYER[:HEADS]@QUERIES>KEYS."""
    found = _matched(EDGES, value, "LAYER[:HEADS]@QUERIES>KEYS, for example 2:0,3@masks>first")
    return bertscope.block_attention(
        number(found["layer"]),
        units_of(found["units"]),
        queries=positions(found["queries"]),
        keys=positions(found["keys"]),
    )


def names(value: str) -> list[Site]:
    """Returns sites with commas between."""
    return [_site(name.strip()) for name in value.split(",")]


def changes(option: str, made: Callable[[str], SiteIntervention], values: Sequence[str] | None) -> Iterator[SiteIntervention]:
    """Yields the changes of a repeated option. Raises BadParameter that names it."""

    def change(value: str) -> SiteIntervention:
        with checked():
            return made(value)

    return each(option, change, values)


@contextmanager
def checked() -> Iterator[None]:
    """Makes the client's errors those of what is written."""
    try:
        yield
    except InvalidArgument as error:
        raise Miswritten(error.message) from error


def positions(written: str | None) -> Any:
    """Returns positions: a kind, tokens "1-2,5", or parts of the text "4..8"; all unless written."""
    if written is None or written in KINDS:
        return KINDS[written or "all"]
    parts = [part.strip() for part in written.split(",")]
    spans = [re.fullmatch(r"(\d+)\.\.(\d+)", part) for part in parts]
    if all(spans):
        return [(int(span[1]), int(span[2])) for span in spans if span]
    ranges = [re.fullmatch(r"(\d+)(?:-(\d+))?", part) for part in parts]
    if not all(ranges):
        raise Miswritten(f"{written!r} are no positions; {POSITIONS}")
    return [token for each in ranges if each for token in range(int(each[1]), int(each[2] or each[1]) + 1)]


def _place(place: str, form: str) -> tuple[Any, int, list[int] | None, Any]:
    found = _matched(PLACE, place, form)
    return _site(found["site"]), number(found["layer"]), units_of(found["units"]), positions(found["positions"])


def _site(name: str) -> Site:
    if name not in SITES:
        raise Miswritten(f"{name!r} is no site; write one of {', '.join(SITES)}")
    return SITES[name]


def codes_of(path: Path | None) -> bertscope.SparseCodes:
    """Returns the codes of --codes, which an option needs. Raises Miswritten, and BadParameter for another file."""
    if path is None:
        raise Miswritten("name the file of codes, --codes FILE")
    try:
        return read_codes(path)
    except OSError as error:
        raise typer.BadParameter(f"--codes: cannot read {path}: {error.strerror}") from error
    except InvalidArgument as error:
        raise typer.BadParameter(f"--codes: {error.message}") from error


def units_of(written: str | None) -> list[int] | None:
    """Returns the units "17,99"; None for all."""
    return None if written is None else numbers(written)


def _matched(form: re.Pattern[str], value: str, written: str) -> dict[str, Any]:
    found = form.fullmatch(value)
    if found is None:
        raise Miswritten(f"write {written}")
    return found.groupdict()


def _factor(written: str) -> float:
    try:
        return float(written)
    except ValueError:
        raise Miswritten(f"{written!r} is no number") from None


def read_arrays(path: Path) -> Any:
    """Returns the array of an .npy file, or those of an .npz file by name. numpy is imported here: others do without."""
    from bertscope.values.kept_arrays import kept_file, read_npy, read_npz

    why = "is no array that numpy.save or numpy.savez wrote"
    try:
        with path.open("rb") as file, kept_file(path, "holds no array that can be used", why):
            if path.suffix == ".npz":
                return read_npz(file, ("left", "right", "mean", "about"))
            return read_npy(file, path.stat().st_size)
    except OSError as error:
        raise Miswritten(f"cannot read {path}: {error.strerror}") from error
