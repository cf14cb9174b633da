"""Show what the heads of a model attend to in a text, over many texts, or beside another model.

Examples:

  bertscope attention "The cat sat on the mat." --layer 2 --head 3
  bertscope attention "The cat sat on the mat." --words --plot attention.html
"""

from pathlib import Path

from bertscope import Quantity

from bertscope_workbench.command import options
from bertscope_workbench.command.checked_commands import modes
from bertscope_workbench.command.groups import argument, flag, option
from bertscope_workbench.command.options.interventions import ModelOptions
from bertscope_workbench.command.options.looks import LookOptions
from bertscope_workbench.command.options.results import print_result
from bertscope_workbench.command.options.specifications import numbered
from bertscope_workbench.command.parts.describe import compare_heads, describe_heads, describe_models
from bertscope_workbench.command.views import files as output_files
from bertscope_workbench.command.views.attention import document, print_maps
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.plots.attention import PAGE_FORMAT, save_attention

app = modes("attention", __doc__, describe="describe", compare="compare MODEL")


@app.command("maps", help=__doc__)
def maps(
    *,
    text: str = argument("TEXT", "The text."),
    pair: str | None = option("--pair TEXT", "A second text, read with it."),
    layer: list[int] | None = numbered("--layer L[,L]", "Layers, from 0; all unless set."),
    head: list[int] | None = numbered("--head H[,H]", "Heads, from 0; all unless set."),
    words: bool = flag("--words", "Whole words instead of pieces."),
    quantity: Quantity = option("--quantity", "The numbers to show.", default="weights", dashed=True),
    fp16: bool = flag("--fp16", "Half the bytes, three digits."),
    plot: Path | None = option("--plot FILE", "Draw it: .html (interactive), .png, .svg or .pdf."),
    hide_special: bool = flag("--hide-special", "With --plot: leave special tokens out of the picture.", needs="plot"),
    fixed_scale: bool = flag("--fixed-scale", "With --plot: colours from 0 to 1, and not to the largest weight.", needs="plot"),
    looks: LookOptions,
    call: options.CallOptions,
    to: ModelOptions,
) -> None:
    if fixed_scale and quantity != "weights":
        raise UsageError("--fixed-scale goes with --quantity weights")
    output_files.require_plot(plot, pages=() if looks.look or fixed_scale else (PAGE_FORMAT,))  # Pages follow the browser.
    with to.connect(call.timeout) as client:
        (found,) = client.extract_attention(
            text if pair is None else (text, pair),
            layers=layer,
            heads=head,
            words=words,
            quantity=quantity,
            dtype="float16" if fp16 else "float32",
            **to.arguments(),
            **call.arguments(),
        )
    if plot is not None:
        drawn = found.without_special_tokens() if hide_special else found
        output_files.draw(lambda path: save_attention(drawn, path, fixed_scale=fixed_scale, **looks.look), plot)
    pictured_in = {"plot": str(plot)} if plot else {}
    print_result(found, lambda maps: document(maps) | pictured_in, print_maps, json=call.json, written=[plot])


app.command("describe")(describe_heads)
app.command("models")(describe_models)
app.command("compare")(compare_heads)
