"""Declares options, and groups those that several commands share: a command takes a dataclass, its users write the options."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from bertscope_workbench.command.views.method import running
from bertscope_workbench.command.views.output import UsageError


def option(written: str, help: str | None = None, **more: Any) -> Any:  # noqa: A002  # as typer calls it
    """Returns an option, which `written` as the help has it: "--layer, --layers L[,L]"; `more` goes to typer."""
    *others, last = written.split(", ")
    name, _, value = last.partition(" ")
    return typer.Option(..., *others, name, metavar=value or None, help=help, **more)


def argument(value: str, help: str, **more: Any) -> Any:  # noqa: A002
    """Returns an argument, whose value has this name in the help."""
    return typer.Argument(metavar=value, help=help, **more)


DASHED = "dashed"
"""Beside an option whose choices are those of a `Literal` of the client: people write them with dashes, as options."""


class Offered:
    """The fields of a group that a command offers, in their order, all unless named; and help texts that differ from others':
    `Annotated[Group, Offered("output", "plot", output="Write a row for each layer.")]`."""

    def __init__(self, *names: str, **helps: str) -> None:
        self.names, self.helps = names, helps


def values_of(group: object, *names: str) -> dict[str, object]:
    """Returns the values of options of a group, by their names on the command line."""
    types = get_type_hints(type(group), include_extras=True)
    return {_parts(types[name])[1].param_decls[0]: getattr(group, name) for name in names}


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raises UsageError for the first option that is set: "--plot goes with --describe"."""
    for option, value in given.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{option} {why}")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command as typer should see it: every field of a parameter that is a dataclass is a separate option.

    A set of `Commands` calls it for each of its commands.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind, *metadata = _parts(parameter.annotation)
        if dataclasses.is_dataclass(kind):
            fields = _fields(kind, metadata[0] if metadata else Offered())
            groups[name] = kind, [field.name for field in fields]
            parameters += fields
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    dashed = {parameter.name for parameter in parameters if DASHED in _parts(parameter.annotation)}
    parameters = [_with_dashes(parameter) if parameter.name in dashed else parameter for parameter in parameters]

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        given = [name for name, value in values.items() if value]
        values |= {name: values[name].replace("-", "_") for name in dashed if values[name] is not None}
        for name, (group, fields) in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields})
        before = running.set((command.__name__.replace("_", "-"), given))
        try:
            command(**values)
        finally:
            running.reset(before)

    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect looks for it
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Returns the type and the metadata of an annotation."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def _fields(group: Any, offered: Offered) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(group)}
    missing, required = dataclasses.MISSING, inspect.Parameter.empty
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=required if fields[name].default is missing else fields[name].default,
            annotation=_helped(types[name], offered.helps.get(name)),
        )
        for name in offered.names or fields
    ]


def _helped(annotation: Any, text: str | None) -> Any:
    """Returns the type of an option, with another help text if there is one."""
    if text is None:
        return annotation
    kind, option, *others = _parts(annotation)
    option = copy.copy(option)
    option.help = text
    return Annotated[kind, option, *others]


def _with_dashes(parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns a parameter with dashes in the names of its choices."""
    kind, option, *_ = _parts(parameter.annotation)
    names = next(get_args(each) for each in (kind, *get_args(kind)) if get_origin(each) is Literal)
    choices: Any = Literal[tuple(name.replace("_", "-") for name in names)]
    default = parameter.default.replace("_", "-") if isinstance(parameter.default, str) else parameter.default
    return parameter.replace(annotation=Annotated[choices | None if default is None else choices, option], default=default)
