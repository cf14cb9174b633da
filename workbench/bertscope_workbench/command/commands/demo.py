"""Start a server, show what it can do, and stop it."""

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from bertscope import AttentionMaps, Client, ClozePrompts, DeadlineExceeded, FilledText, zero
from rich.console import Console, Group
from rich.rule import Rule
from rich.text import Text

from bertscope_workbench.command.commands.serve import require_service
from bertscope_workbench.command.groups import option
from bertscope_workbench.command.options.specifications import describe
from bertscope_workbench.command.views.attention import attention_patterns, layers_table
from bertscope_workbench.command.views.cloze import print_answer
from bertscope_workbench.command.views.models import print_models
from bertscope_workbench.command.views.output import Failure, console, printable, probability, table, titled
from bertscope_workbench.command.views.sweep import print_sweep

CLOZE = "The keys to the cabinet [MASK] on the table."
ANSWERS = ["are", "is", "were", "was"]
AGREEING = (zero(3, 1), zero(4, 10))
"""The two heads of the embedded model without which it agrees with the nearest noun."""
SENTENCE = "The cat sat on the mat because it was tired."
PROMPTS = [
    (f"{capital} is the capital of [MASK].", country)
    for capital, country in (
        ("Paris", "France"),
        ("Berlin", "Germany"),
        ("Rome", "Italy"),
        ("Madrid", "Spain"),
        ("Tokyo", "Japan"),
        ("Cairo", "Egypt"),
        ("Ottawa", "Canada"),
        ("Oslo", "Norway"),
    )
]
COMPARED_WORDS = 5
EXIT_CHECK_SECONDS = 0.05
STOP_SECONDS = 30


def demo(
    timeout: float = option("--timeout SECONDS", "How long the server may take to start.", default=120, min=1),
) -> None:
    require_service("demo")
    screen = console()
    with running_server(screen, timeout) as (process, target), Client(target) as client:
        show_models(screen, client)
        show_cloze(screen, client)
        show_attention(screen, client)
        show_sweep(screen, client)
    screen.print(Rule(style="dim"))
    screen.print(f"server stopped, exit code {process.returncode}")
    screen.print("\nRun your own:   bertscope serve")
    screen.print('Then ask it:    bertscope fill "Dante was born in [MASK]."')
    screen.print("And look at it: bertscope explore")
    raise typer.Exit(0 if process.returncode == 0 else 1)


@contextmanager
def running_server(
    screen: Console, start_seconds: float, flags: Sequence[str] = ()
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Starts a server process on free ports, with these flags of `serve`, and yields it with its address; stops it however the
    block ends."""
    with tempfile.TemporaryDirectory(prefix="bertscope-demo-") as folder:
        port_file, log_file = Path(folder, "ports.json"), Path(folder, "server.log")
        command = [sys.executable, "-m", "bertscope_service", "--host", "127.0.0.1", "--port", "0"]
        command += ["--metrics-port", "0", "--port-file", str(port_file)]
        # The default runtime exports the model first, into a cache in the user's home.
        command += ["--runtime", "torch", *flags]
        with log_file.open("wb") as log:
            # In its own session: Ctrl-C reaches this process alone, which then stops the server.
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        previous = signal.signal(signal.SIGTERM, _leave)  # So that the server is stopped then, too.
        try:
            with screen.status("starting a server"):
                target = wait_until_serving(process, port_file, log_file, start_seconds)
            screen.print(f"a server runs at {target} (process {process.pid})")
            yield process, target
        finally:
            stop(process)
            signal.signal(signal.SIGTERM, previous)


def wait_until_serving(process: subprocess.Popen[bytes], port_file: Path, log_file: Path, seconds: float) -> str:
    """Returns the address of a server that serves. Raises Failure if the process ends first or the time runs out."""
    end = time.monotonic() + seconds
    while not port_file.exists():
        _require_running(process, log_file, EXIT_CHECK_SECONDS)
        if time.monotonic() > end:
            raise Failure(f"the server did not listen within {seconds:g} s")
    target = f"127.0.0.1:{json.loads(port_file.read_text())['port']}"
    with Client(target) as client:
        while True:
            try:
                client.wait_until_serving(timeout=min(1, max(0.001, end - time.monotonic())))
                return target
            except DeadlineExceeded:
                _require_running(process, log_file, 0)
                if time.monotonic() > end:
                    raise Failure(f"the server did not serve within {seconds:g} s") from None


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the process: asks it to, and kills it if it has not ended after a while."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def show_models(screen: Console, client: Client) -> None:
    """Shows the loaded models."""
    _step(screen, "1. Which models are there?", "client.list_models()")
    print_models(screen, client.list_models())


def show_cloze(screen: Console, client: Client) -> None:
    """Shows the model's predictions, untouched and without the heads that make its verb agree."""
    _step(screen, "2. What does the model write?", f'client.fill_mask("{CLOZE}")')
    (answer,) = client.fill_mask(CLOZE, top_k=COMPARED_WORDS)
    print_answer(screen, answer)

    example = f"interventions=[{', '.join(f'bertscope.{describe(head)}' for head in AGREEING)}]"
    question = "3. Which heads does it agree with the keys by, and not with the cabinet?"
    _step(screen, question, f'client.fill_mask("{CLOZE}", candidates={ANSWERS}, {example})')
    columns = {"untouched": client.fill_mask(CLOZE, candidates=ANSWERS)[0]}
    for heads in (AGREEING[:1], AGREEING[1:], AGREEING):
        (columns[", ".join(map(describe, heads))],) = client.fill_mask(CLOZE, candidates=ANSWERS, interventions=heads)
    screen.print(comparison_table(ANSWERS, columns))


def comparison_table(words: list[str], columns: dict[str, FilledText]) -> Group:
    """Returns the probability of each word, side by side; green if an intervention makes it likelier, red if it halves it."""
    by_column = [
        {prediction.token: prediction.probability for prediction in answer.masks[0].predictions} for answer in columns.values()
    ]
    rows: list[list[Any]] = []
    for word in words:
        untouched, *changed = (values[word] for values in by_column)
        rows.append([word, untouched, *(Text(probability(value), style=_change_style(value, untouched)) for value in changed)])
    return titled("probability of each word", table(["word", *(f"{name}#p" for name in columns)], rows))


def show_attention(screen: Console, client: Client) -> None:
    """Shows the attention of the heads."""
    _step(screen, "4. What do its heads attend to?", f'next(client.extract_attention("{SENTENCE}")).attention')
    (maps,) = client.extract_attention(SENTENCE)
    screen.print(printable(SENTENCE))
    layers, heads, length, _ = maps.attention.shape
    screen.print(f"{layers} layers x {heads} heads, a map of {length} x {length} each\n", style="dim")
    screen.print(layers_table(maps))
    for line in top_heads(maps):
        screen.print(line)


def show_sweep(screen: Console, client: Client) -> None:
    """Shows the importance of each layer's heads for some prompts."""
    call = 'client.sweep_heads(bertscope.ClozePrompts(prompts), mode="uniform", scope="layers").table()'
    _step(screen, "5. Which heads does a task need?", call)
    table = client.sweep_heads(ClozePrompts(PROMPTS), mode="uniform", scope="layers").table()
    print_sweep(screen, table, "loss", len(table.effects))


def top_heads(maps: AttentionMaps) -> list[str]:
    """Returns, for each place, the head of the whole model that attends most to it."""
    lines = []
    for place, weights in attention_patterns(maps).items():
        layer, head = divmod(int(weights.argmax()), weights.shape[1])
        name = f"layer {maps.layers[layer]}, head {maps.heads[head]}"
        lines.append(f"  most on {place + ':':<10} {name:<18} mean weight {weights[layer, head]:.2f}")
    return lines


def _step(screen: Console, question: str, python: str) -> None:
    screen.print()
    screen.print(Rule(Text(question, style="bold"), align="left", style="dim"))
    screen.print(Text(">>> ", style="dim").append(python, style="green"))
    screen.print()


def _change_style(value: float, untouched: float) -> str:
    return "green" if value > untouched else "red" if value < untouched / 2 else ""


def _require_running(process: subprocess.Popen[bytes], log_file: Path, seconds: float) -> None:
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    lines = log_file.read_text(errors="replace").strip().splitlines()
    raise Failure(f"the server ended with exit code {code}" + (f": {lines[-1]}" if lines else ""))


def _leave(signal_number: int, frame: FrameType | None) -> None:
    sys.exit(128 + signal_number)
