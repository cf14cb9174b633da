"""Formats labels of words as tables and as JSON."""

from bertscope import TaggedText
from rich.console import Console

from bertscope_workbench.command.views.output import bar, plural, printable, probability, table


def print_tagged(screen: Console, answer: TaggedText, *, words: bool) -> None:
    """Prints the text, and a row for each mention; for each label of each word if `words`, or if labels make no mentions."""
    title = printable(answer.text)
    if answer.text_pair is not None:
        title.append(" / ", style="dim").append_text(printable(answer.text_pair))
    screen.print(title)
    if words or answer.scheme == "none":
        _print_words(screen, answer)
    elif answer.mentions:
        result = table(["type", "mention", "place#", "probability#", ""])
        for mention in answer.mentions:
            place = f"{mention.start}-{mention.end}"
            shown = probability(mention.probability), bar(mention.probability)
            result.add_row(printable(mention.type), printable(mention.text), place, *shown)
        screen.print(result)
    else:
        screen.print("no mention")
    if answer.truncated_tokens:
        screen.print(f"{plural(answer.truncated_tokens, 'token')} cut away", style="yellow")


def _print_words(screen: Console, answer: TaggedText) -> None:
    result = table(["word", "label", "probability#", ""])
    for word in answer.words:
        for order, label in enumerate(word.labels):
            shown = probability(label.probability), bar(label.probability)
            result.add_row(printable("" if order else word.text), printable(label.label), *shown)
    screen.print(result)
