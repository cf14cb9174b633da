"""Groups options that several commands share into dataclasses: a command takes the dataclass, its users write the options."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from bertscope_workbench.command.views.output import UsageError


class Offered:
    """The fields of a group that a command offers, in their order, all unless named; and help texts that differ from others':
    `Annotated[Group, Offered("output", "plot", output="Write a row for each layer.")]`."""

    def __init__(self, *names: str, **helps: str) -> None:
        self.names, self.helps = names, helps


def refuse(given: Mapping[str, object], why: str) -> None:
    """Raises UsageError for the first option that is set: "--plot goes with --describe"."""
    for option, value in given.items():
        if value is not None and value is not False and value != []:
            raise UsageError(f"{option} {why}")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command as typer should see it: every field of a parameter that is a dataclass is a separate option."""
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

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        for name, (group, fields) in groups.items():
            values[name] = group(**{field: values.pop(field) for field in fields})
        command(**values)

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
    kind, option = _parts(annotation)
    option = copy.copy(option)
    option.help = text
    return Annotated[kind, option]
