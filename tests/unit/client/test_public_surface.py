"""The names, signatures and options that users write are those that are stored."""

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any, get_args

import bertscope
import bertscope_workbench
import typer
from bertscope_workbench.command.app import app


def python_lines() -> Iterator[str]:
    """Every public name, with its signature or its members."""
    packages = {name: package for package in (bertscope, bertscope_workbench) for name in package.__all__}
    for name, package in sorted(packages.items()):
        value = getattr(package, name)
        if inspect.isclass(value):
            yield from class_lines(name, value)
        elif callable(value):
            yield f"{name}{signature(value)}"
        else:
            yield f"{name}: {get_args(value) or type(value).__name__}"


def class_lines(name: str, cls: type) -> Iterator[str]:
    yield f"class {name}{signature(cls) if issubclass(cls, BaseException) or not_generic(cls) else ''}"
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            yield f"  {name}.{field.name}: {annotation(field.type)}"
    for member, value in sorted(members(cls).items()):
        if isinstance(value, property):
            yield f"  {name}.{member} -> {annotation(value.fget.__annotations__.get('return'))}"
        elif callable(value):
            kind = next((text for check, text in KINDS.items() if check(value)), "")
            yield f"  {kind}{name}.{member}{signature(value)}"


KINDS = {inspect.iscoroutinefunction: "async ", inspect.isasyncgenfunction: "async iterator "}
SPECIAL = {"__enter__", "__exit__", "__iter__", "__next__", "__aenter__", "__aexit__", "__aiter__", "__anext__", "__getitem__"}


def not_generic(cls: type) -> bool:
    """Whether the signature of the constructor is the class' own, not that of tuple or of a Literal."""
    return "__init__" in {name for base in cls.__mro__[:-1] for name in vars(base)} and not issubclass(cls, tuple)


def members(cls: type) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        if base.__module__.startswith("bertscope"):
            for name in tuple(vars(base)):
                getattr(base, name, None)  # A method of a client is imported when it is used, and is then in its place.
            found |= {name: inspect.getattr_static(base, name) for name in vars(base)}
    public = {name: value for name, value in found.items() if not name.startswith("_") or name in SPECIAL}
    return {name: getattr(value, "__func__", value) for name, value in public.items()}


def signature(value: Any) -> str:
    found = inspect.signature(value)
    parameters = [each.replace(annotation=written(each.annotation)) for each in found.parameters.values()]
    return str(found.replace(parameters=parameters, return_annotation=written(found.return_annotation)))


class Written(str):
    """An annotation as it was written, which `inspect` shows without quotes."""

    def __repr__(self) -> str:
        return str(self)


def written(value: Any) -> Any:
    return value if value is inspect.Signature.empty else Written(annotation(value))


def annotation(value: Any) -> str:
    return value if isinstance(value, str) else inspect.formatannotation(value)


def command_lines(command: Any, path: str = "bertscope") -> Iterator[str]:
    """Every command with its help, and all of its options and arguments."""
    yield f"$ {path}: {' '.join((command.help or '').split())}"
    for parameter in command.params:
        kind = inspect.formatannotation(parameter.type_descriptor.annotation)
        written = [*parameter.opts, *parameter.secondary_opts]
        facts = {"default": parameter.default, "required": parameter.required, "variable": parameter.envvar}
        facts |= {name: getattr(parameter, name, None) for name in ("metavar", "nargs", "multiple", "min", "max", "is_flag")}
        yield f"  {'/'.join(written)} {kind} {', '.join(f'{key}={value!r}' for key, value in facts.items())}"
        yield f"    {getattr(parameter, 'help', '')}"
    for name, child in sorted(getattr(command, "commands", {}).items()):
        yield from command_lines(child, f"{path} {name}")


def test_the_public_surface_is_the_stored_one(stored):
    stored(python="\n".join(python_lines()), commands="\n".join(command_lines(typer.main.get_command(app))))


def test_a_list_of_arguments_has_all_of_them_and_ends_the_docstring():
    listed = 0
    for method in members(bertscope.Client).values():
        _, heading, arguments = (inspect.getdoc(method) or "").partition("\n\nArguments:\n")
        if heading:
            names = [line.partition(":")[0].strip() for line in arguments.splitlines() if not line.startswith(" " * 8)]
            assert names == list(inspect.signature(method).parameters)[1:]
            listed += 1
    assert listed > 20
