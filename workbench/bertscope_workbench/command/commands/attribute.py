"""Show which words made a score, of any head: how much of it is due to each.

Values are exact Shapley values for texts of up to 10 words, and means over sampled orders, with intervals, beyond; --method
names others. `bertscope lens attribute` shows which parts of the model made the score; --site divides it among the neurons
or heads of each layer by integrated gradients (knowledge neurons).

With --output, a row for each text of a file is written as it comes, and --resume goes on with a file that was cut short. A
file may name the score of each line in the columns "answer" and "other", or "label".

Examples:

  bertscope attribute "The keys to the cabinet [MASK] on the table." --answer are --other is
  bertscope attribute --texts examples/capitals.tsv --method occlusion --output words.jsonl
"""

from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import tee
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from bertscope import AbsentText, AttributionMethod, NeuronAttribution, WordAttribution
from rich.console import Console

from bertscope_workbench.command.groups import flag, offered, option
from bertscope_workbench.command.options import CallOptions
from bertscope_workbench.command.options.answering import AskedItems, AskingOptions, ItemFileOptions, PairArguments
from bertscope_workbench.command.options.looks import LOOKS
from bertscope_workbench.command.options.results import OutputOptions, print_written
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.options.targets import TargetOptions
from bertscope_workbench.command.views.attribution import neurons_document, print_neurons
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.command.views.progress import waiting
from bertscope_workbench.command.views.word_attribution import document, print_attribution
from bertscope_workbench.plots.word_attribution import save_word_attribution
from bertscope_workbench.readers import files

if TYPE_CHECKING:
    from bertscope import Client

T = TypeVar("T")


def attribute(
    *,
    given: PairArguments,
    target: TargetOptions,
    method: AttributionMethod = option("--method", "How the score is divided among words.", default="shapley", dashed=True),
    absent: AbsentText | None = option(
        "--absent", "What an absent word leaves behind; mask tokens unless set, zero with gradients alone."
    ),
    pieces: bool = flag("--pieces", "Give values to pieces of the vocabulary, not to words."),
    exact_units: int | None = option(
        "--exact-units N", "The most words with exact Shapley values; 10 unless set.", min=0, max=12
    ),
    pairs: int | None = option("--pairs N", "Pairs of orders that longer texts sample; 10 unless set.", min=1),
    seed: int = option("--seed N", "Chooses the orders.", default=0, min=0),
    steps: int | None = option("--steps N", "Of integrated gradients, to begin with; 10 unless set.", min=1, max=1000),
    tolerance: float | None = option(
        "--tolerance SHARE", "The error that ends integrated gradients; 0.01 unless set.", min=0.0001, max=1
    ),
    interactions: bool = flag("--interactions", "Also show which two words act together."),
    site: Literal["neurons", "heads"] | None = option(
        "--site", "Divide the score among neurons or heads in place of words.", without="absent pieces interactions plot"
    ),
    layer: list[int] | None = numbered("--layer L[,L]", "With --site: layers, from 0; all unless set.", needs="site"),
    top: int | None = option("--top N", "With --site: the units to show; 20 unless set.", min=1, max=10_000, needs="site"),
    out: OutputOptions = offered(*LOOKS, plot="Draw the words of one TEXT: .png, .svg or .pdf."),
    file: ItemFileOptions = offered(file='Attribute a file: column "text", maybe "text_pair", or .txt.'),
    call: CallOptions,
    to: AskingOptions,
) -> None:
    alone = file.file is None and len(given.texts or []) == 1 and given.texts != ["-"]
    if out.plot is not None and not alone:
        raise UsageError("--plot goes with exactly one TEXT")
    own = file.file is not None and not target.given
    if not (own or target.given):
        raise UsageError(
            "name the score: --answer, --label, --top-label, --word-label, --answer-span, --value, --similar-to, ..."
        )
    asked = AskedItems(to, given, file, call, files.ATTRIBUTED if own else files.INPUTS)

    if site is not None:
        asked.answer(
            "attributing",
            lambda client: partial(find_neurons, client, alone=alone),
            print_neurons,
            neurons_document,
            target=target,
            site=site,
            layers=layer,
            top=top,
            method="integrated_gradients" if method == "shapley" else method,
            steps=steps,
            tolerance=tolerance,
            truncate=call.truncate,
        )
        return

    def show(screen: Console, found: WordAttribution) -> None:
        written = out.write({}, partial(save_word_attribution, found))
        print_attribution(screen, found)
        print_written(screen, written)

    def fields(found: WordAttribution) -> dict[str, Any]:
        out.write({}, partial(save_word_attribution, found))
        return document(found)

    asked.answer(
        "attributing",
        lambda client: partial(attribute_words, client, alone=alone),
        show,
        fields,
        target=target,
        method=method,
        absent=absent,
        unit="piece" if pieces else "word",
        exact_units=exact_units,
        pairs=pairs,
        seed=seed,
        steps=steps,
        tolerance=tolerance,
        interactions=interactions,
        truncate=call.truncate,
    )


def attribute_words(client: "Client", items: Iterator[Any], **asked: Any) -> Generator[WordAttribution, None, None]:
    """Asks as the client's method, whose name it has in files of rows; see `_asked`."""
    yield from _asked(client.attribute_words_stream, items, **asked)


def find_neurons(client: "Client", items: Iterator[Any], **asked: Any) -> Generator[NeuronAttribution, None, None]:
    """Asks as the client's method, whose name it has in files of rows; see `_asked`."""
    yield from _asked(client.find_neurons_stream, items, **asked)


def _asked(
    ask: Callable[..., Generator[T, None, None]], items: Iterator[Any], *, target: TargetOptions, alone: bool, **asked: Any
) -> Generator[T, None, None]:
    """Asks about texts, or about texts with columns of their own that name the number; shows that work runs if there is one
    text `alone`."""

    def with_targets() -> Iterator[tuple[Any, Any]]:
        for index, item in enumerate(items):
            text, own = item if isinstance(item, files.AttributedRow) else (item, None)
            yield text, target.of(f"inputs[{index}]", text, own)

    texts, targets = tee(with_targets())
    answers = ask((text for text, _ in texts), (one for _, one in targets), **asked)
    if alone:
        with waiting("attributing"):
            found = [*answers]
        yield from found
    else:
        yield from answers
