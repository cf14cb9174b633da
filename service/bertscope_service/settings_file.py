"""Settings from a TOML file: `bertscope serve --config FILE.toml`."""

from __future__ import annotations

import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource, SettingsError


class ConfigError(SettingsError):
    """A file of settings can't be used: a line for each problem."""


class ConfigFile(PydanticBaseSettingsSource):
    """The source below flags and variables: the file that one of them names as `config`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Returns nothing for a single field: the file is read at once."""
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Returns the values of the file, or none where no file is named. Raises ConfigError that names the file, each wrong
        key, and the remedy."""
        path = self.current_state.get("config")
        return read_config(Path(path), self.settings_cls.model_fields) if path else {}


def read_config(path: Path, fields: dict[str, FieldInfo]) -> dict[str, Any]:
    """Returns a file's values, each checked alone: what several say together is checked with flags and variables. Raises
    SettingsError."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))  # some editors begin a file with a byte order mark
    except OSError as error:
        raise ConfigError(f"--config {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"--config {path} is not TOML: {error}") from error
    problems = [problem for name, value in values.items() if (problem := _problem(name, value, fields))]
    if problems:
        raise ConfigError("\n".join(f"--config {path}: {problem}" for problem in problems))
    return values


def _problem(name: str, value: Any, fields: dict[str, FieldInfo]) -> str:
    """Returns what is wrong with a key or its value; "" if nothing is."""
    if name == "config":
        return "a file can't name another one; remove the key config"
    if (field := fields.get(name)) is None:
        near = get_close_matches(name.replace("-", "_").lower(), fields, n=1, cutoff=0.8)
        return f"no setting is called {name}" + (f"; {near[0]} is meant?" if near else "; bertscope serve --help lists them")
    if isinstance(value, bool) != (field.annotation is bool):  # pydantic would read true as 1, and 1 as true
        return f"{name}: must be {'true or false' if field.annotation is bool else 'no boolean'}, got {_written(value)}"
    declared: Any = Annotated[field.annotation, field]
    try:
        TypeAdapter(declared).validate_python(value)
    except ValidationError as error:
        return f"{name}: {error.errors()[0]['msg']}, got {_written(value)}"
    return ""


def _written(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
