"""Several models that are asked the same, in one table."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from bertscope_workbench.command.groups import option
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


Models = Annotated[list[str], option("--model NAME", "A model to ask. Repeatable: one table of all.", callback=distinct)]


def side_by_side(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Returns tables of models, by their names, as one, which has the model as its first column."""
    rows = {model: len(next(iter(columns.values()), ())) for model, columns in tables.items()}
    names = dict.fromkeys(name for columns in tables.values() for name in columns)
    joined = {
        name: [value for model, columns in tables.items() for value in columns.get(name, [None] * rows[model])]
        for name in names
    }
    return {"model": [model for model, count in rows.items() for _ in range(count)], **joined}
