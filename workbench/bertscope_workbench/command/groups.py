"""Declares options, and groups those that several commands share: a command takes a dataclass, its users write the options."""

import copy
import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

import typer

from bertscope_workbench.command.views.method import running
from bertscope_workbench.command.views.output import UsageError
from bertscope_workbench.command.views.wording import filled

T = TypeVar("T")

DECLARED = "declared"
"""The key, in the metadata of a field, of what is declared of an option or an argument."""


def option(
    written: str,
    help: str | None = None,  # noqa: A002  # as typer calls it
    *,
    default: Any = None,
    dashed: bool = False,
    reads: Callable[[str], Any] | None = None,
    joins: Callable[[Iterator[Any]], Any] = next,
    needs: str = "",
    without: str = "",
    field: str | None = "",
    **more: Any,
) -> Any:
    """Declares an option, in the place of the default of a parameter, or of a field of a group; or beside its type, in the
    `Annotated` that several commands share. `written` is as the help has it: "--layer, --layers L[,L]"; `more` goes to typer.

    A `default` of `...` says that it must be given. The choices of a `dashed` one are those of a `Literal` of the client, which
    people write with dashes. `reads` makes the value that the command gets of a text, or raises Miswritten; of a repeatable
    option `joins` makes it of all that are read. `needs` names parameters of the command, separated by blanks: the option is
    refused unless one of them is given. It is refused also if one of `without` is given. `field` names what the option fills, a
    field of a request or an argument of a client's method, where it is not called as the parameter is; None is nothing that an
    error could name.
    """
    *others, last = written.split(", ")
    name, _, value = last.partition(" ")
    made: Any = typer.Option(..., *others, name, metavar=value or None, help=help, **more)
    fields = None if field is None else field.split()
    return _declared(made, default, needs.split(), without.split(), fields, dashed=dashed, reads=reads, joins=joins)


def flag(written: str, help: str, **more: Any) -> Any:  # noqa: A002
    """Declares an option without a value, which is False unless it is given; arguments are those of `option`."""
    return option(written, help, default=False, **more)


def argument(value: str, help: str, *, default: Any = ..., without: str = "", field: str = "", **more: Any) -> Any:  # noqa: A002
    """Declares an argument, whose value has this name in the help, and which must be given unless it has a default; other
    arguments are those of `option`."""
    return _declared(typer.Argument(metavar=value, help=help, **more), default, [], without.split(), field.split())


def _declared(made: Any, default: Any, needs: list[str], without: list[str], fields: list[str] | None, **more: Any) -> Any:
    vars(made).update({"needs": needs, "without": without, "fields": fields, "dashed": False, "reads": None} | more)
    return dataclasses.field(default=dataclasses.MISSING if default is ... else default, metadata={DECLARED: made})


class Miswritten(ValueError):
    """A value can't be read; the text says what to write."""


def read(option: str, reads: Callable[[str], T], value: str) -> T:
    """Returns what `reads` makes of a value. Raises BadParameter, which names the option and the value."""
    try:
        return reads(value)
    except Miswritten as error:
        raise typer.BadParameter(f"{f'{option} {value}'.strip()}: {error}") from error


def each(option: str, reads: Callable[[str], T], values: Iterable[str] | None) -> Iterator[T]:
    """Yields what `reads` makes of each value of a repeatable option. Raises BadParameter as `read`."""
    return (read(option, reads, value) for value in values or ())


MOST_WITH_VALUES = 3
"""The most options that an error names with their values."""


class Offered(NamedTuple):
    """The fields of a group that a command offers, in their order, all unless named; help texts that differ from others'."""

    names: Sequence[str] = ()
    helps: Mapping[str, str] = MappingProxyType({})


def offered(*names: str, **helps: str) -> Any:
    """Declares `Offered`, in the place of the default of a parameter that is a group:
    `out: OutputOptions = offered("output", "plot", output="Write a row for each layer.")`."""
    return Offered(names, helps)


def grouped(command: Callable[..., None], *path: str) -> Callable[..., None]:
    """Returns the command as typer should see it: every field of a parameter that is a dataclass is a separate option.

    A set of `Commands` calls it for each of its commands, with the names under which it is called.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, tuple[Any, list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        kind, *metadata = _parts(parameter.annotation)
        if dataclasses.is_dataclass(kind):
            chosen = next((each for each in (parameter.default, *metadata) if isinstance(each, Offered)), Offered())
            fields = _fields(kind, chosen)
            groups[name] = kind, [field.name for field in fields]
            parameters += fields
        else:
            parameters.append(_parameter(name, parameter.annotation, parameter.default))
    dashed = {each.name for each in parameters if any(getattr(part, "dashed", False) for part in _parts(each.annotation))}
    parameters = [_with_dashes(parameter) if parameter.name in dashed else parameter for parameter in parameters]

    options = options_of(parameters)

    @functools.wraps(command)
    def flat(**values: Any) -> None:
        filled.set(options)  # Not reset: an error is printed after the command has ended.
        _refuse_apart(parameters, values)
        given = [*path[1:], *(name for name, value in values.items() if value)]
        values |= {name: values[name].replace("-", "_") for name in dashed if values[name] is not None}
        values |= _read(parameters, values)
        made = {name: group(**{field: values.pop(field) for field in fields}) for name, (group, fields) in groups.items()}
        before = running.set((path[0], given))
        try:
            command(**values, **made)
        finally:
            running.reset(before)

    flat.options = options  # type: ignore[attr-defined]
    flat.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]  # inspect looks for it
    flat.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return flat


def _read(parameters: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values that are read of what is written, None of nothing."""
    found = dict[str, Any]()
    for parameter in parameters:
        declared, value = _parts(parameter.annotation)[-1], values[parameter.name]
        if reads := getattr(declared, "reads", None):
            written = [value] if isinstance(value, str) else value
            found[parameter.name] = declared.joins(each(_shown(parameter.annotation), reads, written)) if written else None
    return found


def options_of(parameters: Sequence[inspect.Parameter]) -> dict[str, str]:
    """Returns the options of a command by the fields of requests, and the arguments of methods, that they fill: by the names
    that are declared, else by the parameter's, and if it is repeatable by that of several."""
    found = dict[str, list[str]]()
    for parameter in parameters:
        kind, *metadata = _parts(parameter.annotation)
        declared = next((part for part in metadata if hasattr(part, "fields")), None)
        own = [parameter.name, *([f"{parameter.name}s"] if "list" in str(kind) else [])]
        if declared is not None and declared.fields is not None:
            for name in declared.fields or (own if declared.param_decls else ()):
                found.setdefault(name, []).append(_shown(parameter.annotation))
    return {name: _either(shown) for name, shown in found.items()}


def _refuse_apart(parameters: Sequence[inspect.Parameter], values: Mapping[str, Any]) -> None:
    """Raises UsageError for an option without one that it needs, or with one that it excludes."""
    known = {each.name: each.annotation for each in parameters}
    given = {
        each.name
        for each in parameters
        if (value := values[each.name]) is not None and value is not False and value not in ([], (), each.default)
    }
    for name in (each.name for each in parameters if each.name in given):
        declared = next((part for part in _parts(known[name])[1:] if hasattr(part, "needs")), None)
        needs = [other for other in getattr(declared, "needs", ()) if other in known]
        if needs and not given.intersection(needs):
            others = [_shown(known[other], value=len(needs) <= MOST_WITH_VALUES) for other in needs]
            raise UsageError(f"{_shown(known[name])} goes with {_either(others)}")
        for other in getattr(declared, "without", ()):
            if other in given:
                raise UsageError(f"{_shown(known[name])} does not go with {_shown(known[other])}")


def _either(names: Sequence[str]) -> str:
    """Returns names as one of them: "a, b or c"."""
    return " or ".join([*filter(None, [", ".join(names[:-1])]), names[-1]])


def _shown(annotation: Any, *, value: bool = False) -> str:
    """Returns an option's name on the command line, with its `value` if that is asked for; of an argument, the value's."""
    declared = _parts(annotation)[1]
    metavar = (declared.metavar or "").partition(" ")[0].strip("[].")
    return " ".join([declared.param_decls[0], *([metavar] if value and metavar else [])]) if declared.param_decls else metavar


def _parts(annotation: Any) -> tuple[Any, ...]:
    """Returns the type and the metadata of an annotation."""
    parts = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    return tuple(part.metadata[DECLARED] if isinstance(part, dataclasses.Field) else part for part in parts)


def _fields(group: Any, offered: Offered) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    fields = {field.name: field for field in dataclasses.fields(group)}
    return [_parameter(name, types[name], fields[name], offered.helps.get(name)) for name in offered.names or fields]


def _parameter(name: str, annotation: Any, default: Any, text: str | None = None) -> inspect.Parameter:
    """Returns the parameter of an option or argument, whose type has what is declared of it beside it; with another help text
    if there is one."""
    kind, *metadata = _parts(annotation)
    if isinstance(default, dataclasses.Field):
        metadata = metadata or [default.metadata[DECLARED]]
        default = inspect.Parameter.empty if default.default is dataclasses.MISSING else default.default
    if getattr(metadata and metadata[0], "reads", None):
        written = str if metadata[0].joins is next else list[str]
        kind = written | None if default is None else written
    if text is not None:
        metadata[0] = copy.copy(metadata[0])
        metadata[0].help = text
    annotation = Annotated[kind, *metadata] if metadata else kind
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_dashes(parameter: inspect.Parameter) -> inspect.Parameter:
    """Returns a parameter with dashes in the names of its choices."""
    kind, option, *_ = _parts(parameter.annotation)
    names = next(get_args(each) for each in (kind, *get_args(kind)) if get_origin(each) is Literal)
    choices: Any = Literal[tuple(name.replace("_", "-") for name in names)]
    default = parameter.default.replace("_", "-") if isinstance(parameter.default, str) else parameter.default
    return parameter.replace(annotation=Annotated[choices | None if default is None else choices, option], default=default)
