"""Groups options that several commands share into dataclasses: a command takes the dataclass, its users write the options."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints


class Helps(dict[str, str]):
    """Help texts, by field, of options that mean something else in one command: `Annotated[Group, Helps(file="...")]`."""

    def __init__(self, **texts: str) -> None:
        super().__init__(texts)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command as typer should see it: every field of a parameter that is a dataclass is a separate option."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind, *metadata = _parts(parameter.annotation)
        if dataclasses.is_dataclass(kind):
            groups[name] = kind
            parameters += _fields(kind, metadata[0] if metadata else {})
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
        command(**values)

    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect looks for it
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Returns the type and the metadata of an annotation."""
    return get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)


def _fields(group: Any, helps: Mapping[str, str]) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    required = dataclasses.MISSING, inspect.Parameter.empty
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=required[1] if field.default is required[0] else field.default,
            annotation=_helped(types[field.name], helps.get(field.name)),
        )
        for field in dataclasses.fields(group)
    ]


def _helped(annotation: Any, text: str | None) -> Any:
    """Returns the type of an option, with another help text if there is one."""
    if text is None:
        return annotation
    kind, option = _parts(annotation)
    option = copy.copy(option)
    option.help = text
    return Annotated[kind, option]
