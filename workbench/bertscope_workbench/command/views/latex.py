"""Writes tables for papers: a tabular of LaTeX with the rules of the package booktabs.

An estimate and the ends of its interval are one column, `0.713 [0.660, 0.762]`. All numbers of a column have the decimals that
give its largest one three digits, so that they stand below each other. What is missing is a dash.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MISSING = "--"
PAGE_ROWS = 40
"""Rows of a table that fits a page. A longer one is a longtable, which breaks between pages."""
LINE_LETTERS = 40
"""Letters of a cell that stands on one line. Longer ones are paragraphs of a narrow column."""
PAGE_LETTERS, GAP_LETTERS = 68, 2
"""Letters of a line of a page of 345 points, as that of `article`, and letters in place of the gap between two columns."""
SHRUNK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
"""The beginning of a table that is made as narrow as the page, where it is wider."""
LARGEST_DECIMALS = 5
ESCAPES = str.maketrans(
    {char: f"\\{char}" for char in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"−": "-"}
)
"""Letters that mean something to LaTeX, or that its old encoding of fonts draws as others."""
LIGATURES = re.compile(r"-(?=-)|'(?=')|`(?=`)|,(?=,)|[?!](?=`)")
"""Letters that would join with the next one: two hyphens to a dash, "?`" to a question mark of Spanish."""

COMMANDS = re.compile(r"(?<=\\)[a-z]+(?=\{\})|[{}$#]|\\(?=\W)")
"""The parts of a cell that are not printed, but for a letter of each command."""

NATS = (
    "log_likelihood", "log_probability", "mean_log_probability", "prior_log_probability", "answer_log_probability", "log_odds",
    "surprisal", "entropy", "first_special_entropy", "divergence", "divergence_before", "loss", "logit", "right_score",
    "other_score", "mean_difference", "baseline_right_score", "baseline_other_score", "baseline_difference", "added", "ablated",
    "coded", "mean", "zero",
)  # fmt: skip
UNITS: Mapping[str, str] = {
    **dict.fromkeys(NATS, "nats"),
    **dict.fromkeys(("bits", "control_bits", "surprisal_bits"), "bits"),
    **dict.fromkeys(("start", "end", "partner_start", "partner_end", "neighbour_start"), "code points"),
    "distance": "tokens",
    "offset": "words",
}
"""The unit by the name of a column. Shares, counts and correlations have none."""

METRICS: Mapping[str, str] = {"loss": "nats", "divergence": "nats"}
"""The unit of a column of rows whose numbers are of several metrics: it stands with the metric's name."""


def latex_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], units: Mapping[str, str] | None = None) -> str:
    """Returns rows as a table of LaTeX. `units` are those of columns whose name alone doesn't say it. Texts have none, and
    names of metrics that of the numbers of their row."""
    values = {name: [row[place] for row in rows] for place, name in enumerate(columns)}
    heads, cells = list[str](), list[list[str]]()
    for name, ends in _estimates(columns).items():
        own = values.get(name)
        if name == "group" and own is not None:
            own = [value or "all" for value in own]
        texts = own is not None and any(isinstance(value, (str, list, tuple)) for value in own)
        if own is not None and texts:
            heads.append(_head(name))
            cells.append([_text(_measured(value) if name == "metric" else value) for value in own])
            continue
        bounds = list(zip(*(values[end] for end in ends), strict=True)) if ends else []
        numbers = _numbers(([] if own is None else own) + [end for pair in bounds for end in pair])
        count = 0 if own is None else len(own)
        shown = [*numbers[:count]] or [""] * len(bounds)
        pairs = zip(numbers[count::2], numbers[count + 1 :: 2], strict=True)
        if ends:
            shown = [_with_ends(value, *pair) for value, pair in zip(shown, pairs, strict=True)]
        heads.append(_head(name, unit(name, units or {}), interval=bool(ends)) + "#")
        cells.append(shown)
    return tabular(heads, list(zip(*cells, strict=True)))


def unit(column: str, units: Mapping[str, str]) -> str:
    """Returns a column's unit, or "" if it has none. `units` of a table go before the usual ones, and a standard error
    has that of its estimate."""
    known = {**UNITS, **units}
    for suffix in ("", "_error"):
        if column.endswith(suffix) and (name := column.removesuffix(suffix)) in known:
            return known[name]
    return ""


def tabular(heads: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """Returns cells that are LaTeX already as a table. A head that ends with "#" is one of numbers."""
    widest = [max((len(row[place]) for row in rows), default=0) for place in range(len(heads))]
    kinds = "".join(
        "r" if head.endswith("#") else r"p{0.4\linewidth}" if wide > LINE_LETTERS else "l"
        for head, wide in zip(heads, widest, strict=True)
    )
    long = len(rows) > PAGE_ROWS
    wide = not long and not fits_page([heads, *rows])
    environment, packages = ("longtable", "booktabs,longtable") if long else ("tabular", "booktabs")
    lines = [f"% \\usepackage{{{packages}{',graphicx' if wide else ''}}}", *([f"% {caption}"] if caption else [])]
    lines += [SHRUNK] if wide else []
    lines += [f"\\begin{{{environment}}}{{{kinds}}}", r"\toprule", _line(head.removesuffix("#") for head in heads), r"\midrule"]
    lines += [r"\endhead", r"\bottomrule", r"\endfoot"] if long else []
    lines += [*map(_line, rows), *([] if long else [r"\bottomrule"]), f"\\end{{{environment}}}{'}%' if wide else ''}"]
    return "\n".join(lines) + "\n"


def fits_page(rows: Sequence[Sequence[str]], letters: int = PAGE_LETTERS) -> bool:
    """Says whether a table with these cells, the heads among them, is about as wide as a page of such lines or less."""
    widths = (min(LINE_LETTERS, max(len(COMMANDS.sub("", cell)) for cell in column)) for column in zip(*rows, strict=True))
    return sum(width + GAP_LETTERS for width in widths) <= letters


def escaped(text: str) -> str:
    """Returns a text on one line, with the letters that mean something to LaTeX escaped."""
    shown = "".join(char if char.isprintable() else " " if char.isspace() else repr(char)[1:-1] for char in text)
    return " ".join(LIGATURES.sub(r"\g<0>{}", shown.translate(ESCAPES)).split())


def _estimates(columns: Sequence[str]) -> dict[str, tuple[str, str] | None]:
    """Returns the columns to print, with the names of the ends of their intervals: a plain "low" is of the column before."""
    found: dict[str, tuple[str, str] | None] = {}
    for place, name in enumerate(columns):
        stem = columns[place - 1] if name == "low" else name.removesuffix("_low")
        high = name.removesuffix("low") + "high"
        if name.endswith("low") and stem != name and high in columns:
            found[stem] = (name, high)
        elif not (name.endswith("high") and name.removesuffix("high") + "low" in columns):
            found.setdefault(name, None)
    return found


def _numbers(values: Sequence[Any]) -> list[str]:
    """Returns numbers of one column with the same decimals: integers whole, others so that the largest has three digits."""
    sizes = [abs(value) for value in values if isinstance(value, float) and math.isfinite(value)]
    largest = max(sizes, default=0.0)
    # A share of 1.000 has the decimals of those below it.
    decimals = 3 if largest in (0, 1) else max(0, min(LARGEST_DECIMALS, 2 - math.floor(math.log10(largest))))
    return [_number(value, decimals) for value in values]


def _number(value: Any, decimals: int) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and math.isinf(value):
        return r"$\infty$" if value > 0 else r"$-\infty$"
    if isinstance(value, int):
        shown = f"{value:,}"
    elif 0 < abs(value) < 0.5 * 10**-decimals:  # It is not 0.
        mantissa, exponent = f"{abs(value):.1e}".split("e")
        return f"${'-' if value < 0 else ''}{mantissa}\\cdot 10^{{{int(exponent)}}}$"
    else:
        shown = f"{value:,.{decimals}f}"
    return f"$-${shown[1:]}" if shown.startswith("-") else shown


def _with_ends(value: str, low: str, high: str) -> str:
    ends = "" if low == MISSING else f"[{low}, {high}]"
    return f"{value} {ends}".strip() or MISSING


def _head(name: str, unit: str = "", *, interval: bool = False) -> str:
    title = escaped(name.replace("_", " ")) + (" [low, high]" if interval else "")
    return f"{title} ({unit})" if unit and unit not in name.split("_") else title


def _measured(metric: Any) -> Any:
    return f"{metric} ({METRICS[metric]})" if metric in METRICS else metric


def _text(value: Any) -> str:
    if value is None or value == "":
        return MISSING
    return escaped(", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))


def _line(cells: Iterable[str]) -> str:
    # A bracket or a star at the beginning of a row would belong to the command that ends the row before.
    return " & ".join(f"{{{cell}}}" if cell.startswith(("[", "*")) else cell for cell in cells) + r" \\"
