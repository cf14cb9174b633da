"""Formats predictions at every layer as tables and as JSON."""

from bertscope import LayerReading, LensPosition, LensText
from bertscope.values.columns import Column
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from bertscope_workbench.command.views.output import fits, print_cut, printable, table, titled

OTHERS = 3
"""The most predictions after the first in a table of one position."""
COMMON = 0.5
"""A prediction of this probability or more is printed in bold."""


def print_lens(screen: Console, found: LensText) -> None:
    """Prints the layers of one position or a few; of more, the likeliest entry of each at each layer, if that fits."""
    text = found.text if isinstance(found.text, str) else " / ".join(found.text)
    screen.print(printable(text), style="bold", soft_wrap=True)
    print_cut(screen, found.truncated_tokens)
    whole = grid(found)
    if len(found.positions) > 1 and fits(screen, whole):
        screen.print(titled("the likeliest entry at each layer; the last layer is what the model predicts", whole))
    if len(found.positions) == 1 or found.positions[0].layers[0].candidates or not fits(screen, whole):
        for position in found.positions:
            screen.print(layers_table(position))
    states = "as they are" if found.normalisation == "none" else "after the model's last normalisation"
    screen.print(f"{found.provenance.model}; layer 0: the embeddings; states before the last are read {states}", style="dim")


def grid(found: LensText) -> Table:
    """Returns the likeliest entry of each position at each layer, the last layer on top."""
    rows = (
        [str(found.layers[number]), *(_word(position.layers[number]) for position in found.positions)]
        for number in reversed(range(len(found.layers)))
    )
    return table(["layer#", *(Column("", position.token.text, text=True) for position in found.positions)], rows)


def _word(reading: LayerReading) -> Text:
    best = reading.top[0]
    word = printable(best.token)
    word.stylize("bold cyan" if best.probability >= COMMON else "" if best.probability >= COMMON / 5 else "dim")
    return word


def layers_table(position: LensPosition) -> Group:
    """Returns a row for each layer: its predictions, entropy, divergence, and the probability and rank of the candidates."""
    followed = [*((own,) if (own := position.layers[0].own) is not None else ()), *position.layers[0].candidates]
    names = [column for score in followed for column in (Column(score.token, score.token, "p"), "rank#")]
    rows = []
    for each in reversed(position.layers):
        best, *others = each.top
        then = ", ".join(score.token for score in others[:OTHERS])
        rows.append([each.layer, best.token, *[best.probability] * 2, then, each.entropy, each.divergence, *_scores(each)])
    columns = ["layer#", "prediction", "probability#p", "#bar", "then", "entropy#.3f", "KL to last#.3f", *names]
    place = f"token {position.token_index}, "
    return titled(f"{place}{printable(position.token.text)}: entropy and divergence in nats", table(columns, rows))


def _scores(reading: LayerReading) -> list[float]:
    scores = [*([reading.own] if reading.own is not None else []), *reading.candidates]
    return [number for score in scores for number in (score.probability, score.rank)]
