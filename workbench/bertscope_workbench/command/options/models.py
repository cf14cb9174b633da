"""Several models that are asked the same, in one table."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from bertscope_workbench.command.groups import option, refuse
from bertscope_workbench.command.views.output import UsageError


def distinct(models: Sequence[str] | None) -> Sequence[str] | None:
    """Returns the models as they are named. Raises UsageError for one that is named twice: "x" and "models/x" are the same."""
    named = dict[str, str]()
    for model in models or ():
        short = model.removeprefix("models/")
        if short in named:
            raise UsageError(f"--model {named[short]} and --model {model} are the same model; name each once")
        named[short] = model
    return models


Models = Annotated[
    list[str] | None,
    option(
        "--model NAME",
        "The model to ask; the server's default model unless set. Repeatable: one table of all.",
        callback=distinct,
    ),
]


def one_model(models: Sequence[str] | None, **alone: object) -> str | None:
    """Returns the model of a command that is asked about one, None for the default. Raises UsageError for options that are of
    one model, by their names without dashes, if there are several."""
    if models is not None and len(models) > 1:
        refuse({f"--{name.replace('_', '-')}": value for name, value in alone.items()}, "goes with one --model")
    return models[0] if models else None


def side_by_side(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns tables of models, by their names, as one, which has the model as its first column."""
    rows = {model: len(next(iter(columns.values()), ())) for model, columns in tables.items()}
    names = dict.fromkeys(name for columns in tables.values() for name in columns)
    joined = {
        name: [value for model, columns in tables.items() for value in columns.get(name, [None] * rows[model])]
        for name in names
    }
    return {"model": [model for model, count in rows.items() for _ in range(count)], **joined}
