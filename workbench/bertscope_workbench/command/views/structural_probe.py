"""Prints the scores of structural probes."""

from collections.abc import Sequence
from typing import Any

from bertscope import InvalidArgument, StructuralProbeResult
from bertscope.questions.probes.structural_probes import structural_columns
from rich.console import Console
from rich.text import Text

from bertscope_workbench.command.options.sources import MAX_REPORTED
from bertscope_workbench.command.views.output import percent, plural, printable, table, titled


def print_structural_probe(screen: Console, found: StructuralProbeResult, problems: Sequence[InvalidArgument]) -> None:
    """Prints a row for each layer, the chain, and what was left out."""
    part, distances = found.part, found.quantity == "distance"
    score, spearman = ("UUAS", "DSpr.") if distances else ("root", "NSpr.")
    names = ["layer#", f"{score}#", f"{spearman}#", "loss#", f"random {score}#", f"random {spearman}#"]
    rows = table([*names, *(["seeds"] if found.seeds[1:] else [])])
    for one in found.layers:
        cells = [
            f"{one.layer}{' *' if one.layer == found.best_layer else '  '}",
            percent(one.score),
            f"{one.spearman:.3f}",
            f"{one.loss:.3f}",
            percent(one.control_score),
            f"{one.control_spearman:.3f}",
        ]
        spread = [f"{percent(one.spread[0])} to {percent(one.spread[1])}"] if found.seeds[1:] else []
        rows.add_row(*cells, *spread)
    heading = f"{found.provenance.model}: {found.quantity} in the tree, rank {found.rank}"
    heading += f", {plural(found.train.used_texts, 'sentence')} to train on, "
    heading += f"scores of {plural(part.used_texts, 'sentence')} ({found.scored})"
    screen.print(titled(heading, rows))
    same = ", on which it is scored as well" if found.scored == "dev" else ""
    screen.print(Text(f"* the lowest loss on the dev sentences{same}; layer 0 is the embeddings"))
    what = "words in a chain" if distances else "words in a chain, the first its root"
    screen.print(Text(f"{what}: {score} {percent(found.chain_score)}, {spearman} {found.chain_spearman:.3f}"))
    if not part.correlated_texts:
        screen.print(Text("no sentence of 5 to 50 words, which correlations are of", style="yellow"))
    for name in ("train", "dev", "test"):
        own = getattr(found, name)
        if own is not None and own.truncated_words + own.empty_words + own.texts - own.used_texts:
            counts = f"{own.truncated_words} words cut away, {own.empty_words} without a piece"
            counts += f", {plural(own.texts - own.used_texts, 'sentence')} of fewer than two words"
            screen.print(Text(f"left out of {name}: {counts}", style="yellow"))
    if problems:
        screen.print(Text(f"left out: {plural(len(problems), 'sentence')}", style="yellow"))
        for problem in problems[:MAX_REPORTED]:
            screen.print(printable(f"  {problem}"), style="yellow", soft_wrap=True)


def document(found: StructuralProbeResult) -> dict[str, Any]:
    """Returns the scores as one JSON document."""
    columns = structural_columns(found)
    return {
        "model": found.provenance.model,
        "weights": found.provenance.weights_digest,
        "quantity": found.quantity,
        "rank": found.rank,
        "scored": found.scored,
        "texts": {
            name: getattr(found, name).used_texts for name in ("train", "dev", "test") if getattr(found, name) is not None
        },
        "chain": {"score": found.chain_score, "spearman": found.chain_spearman},
        "best_layer": found.best_layer,
        "layers": [dict(zip(columns, row, strict=True)) for row in found.rows()],
        "seconds": found.seconds,
    }
