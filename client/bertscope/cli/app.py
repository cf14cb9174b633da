"""Defines the command line: its commands, and how a failure becomes one line and an exit code."""

import io
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import bertscope
from bertscope.cli.commands import (
    align,
    answer,
    apply_probe,
    attention,
    benchmark,
    cka,
    classify,
    code_length,
    compress,
    contacts,
    explore,
    facts,
    fill,
    geometry,
    health,
    lens,
    models,
    predict,
    probe,
    prune,
    rank,
    relations,
    retrieve,
    score,
    service,
    states,
    structural_probe,
    study,
    sweep,
    tag,
    token,
)
from bertscope.cli.options.commands import Commands
from bertscope.cli.views.output import Failure, UsageError, print_failure
from bertscope.cli.views.wording import in_options

INTERRUPTED = 130

app = Commands(name="bertscope", pretty_exceptions_enable=False, help="Asks BERT-family models questions.")
app.command("serve", context_settings=service.PASS_THROUGH, add_help_option=False)(service.serve)
app.command("demo")(service.demo)
app.command("explore")(explore.explore)
app.add_typer(models.app, name="models")
app.command("fill")(fill.fill)
app.command("facts")(facts.facts)
app.command("score")(score.score)
app.command("attention")(attention.attention)
app.command("relations")(relations.relations)
app.command("contacts")(contacts.contacts)
app.command("states")(states.states)
app.command("geometry")(geometry.geometry)
app.command("cka")(cka.cka)
app.command("lens")(lens.lens)
app.command("probe")(probe.probe)
app.command("code-length")(code_length.code_length)
app.command("structural-probe")(structural_probe.structural_probe)
app.command("apply-probe")(apply_probe.apply_probe)
app.command("retrieve")(retrieve.retrieve)
app.command("align")(align.align)
app.command("classify")(classify.classify)
app.command("tag")(tag.tag)
app.command("predict")(predict.predict)
app.command("answer")(answer.answer)
app.command("sweep")(sweep.sweep)
app.command("rank")(rank.rank)
app.command("prune")(prune.prune)
app.command("compress")(compress.compress)
app.add_typer(study.app, name="study")
app.command("benchmark")(benchmark.benchmark)
app.command("health")(health.health)
app.command("token")(token.token)


def _print_version(asked: bool) -> None:
    if asked:
        sys.stdout.write(f"bertscope {bertscope.__version__}\n")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def bertscope_command(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Asks BERT-family models what they know, which of their heads matter, and what compressing them costs."""
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")


def run(arguments: Sequence[str]) -> int:
    """Runs one command. Exit codes: 0 done, 1 failed (one line on stderr), 2 wrong use, 130 interrupted, 143 terminated."""
    try:
        code: int = app(list(arguments), prog_name="bertscope", standalone_mode=False) or 0
        if code == INTERRUPTED:  # Typer turns Ctrl-C into an exit code, and prints nothing.
            raise KeyboardInterrupt
        return code
    except (bertscope.BertscopeError, Failure) as error:
        print_failure(f"bertscope: {in_options(str(error))}")
        return error.exit_code if isinstance(error, Failure) else 1
    except UsageError as error:
        print_failure(f"bertscope: {in_options(_usage_message(error))}")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        print_failure("bertscope: interrupted")
        return INTERRUPTED


def main() -> None:
    """Runs the command."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # A character that the terminal can't show must not fail the command.
    sys.exit(run(sys.argv[1:]))


def _usage_message(error: Exception) -> str:
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    hint = f" (try: {context.command_path} --help)" if context else ""
    return f"{message.rstrip('.')}{hint}"
