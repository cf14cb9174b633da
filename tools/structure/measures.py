"""Measures the structure of the distributions from their syntax trees.

Definitions. A *module* is a Python file written by hand; files in GENERATED folders, and files whose first line is a comment
that says that they are generated, are left out everywhere, and so are the lines of generated sections. An *import* is an
import statement anywhere in a module, also inside a function, but not under `if TYPE_CHECKING:`. *Floors* are the modules on
the longest chain of imports, a circle of modules counted as one floor. A *room* is a folder with modules, an *arrow* one or
more imports of another room. A *package* is a folder directly below the root; circles between packages are looked for among
these folders and the modules that lie beside them, and *floors of packages* are counted in the same graph.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

PACKAGES = {"service": "service/bertscope_service", "client": "client/bertscope", "workbench": "workbench/bertscope_workbench"}
"""The distributions: their names in the tables, and their root packages."""

FOLDERS = ("client", "workbench", "service", "tests", "benchmarks", "tools", "protos", "deploy", "examples")
"""Folders of the repository whose lines are counted."""

GENERATED = ("client/bertscope/v1", "client/bertscope/inference")
"""Folders that hold generated code only."""

SECTION = re.compile(r"^ *# Generated (?:from|by) .*?^ *# End of what is generated\.$", re.DOTALL | re.MULTILINE)
"""The generated part of a module that is written by hand otherwise, or of a class."""

FORBIDDEN_OPENINGS = ("What", "Who", "Whose", "Those", "Of", "That", "Which", "Whether")
"""Words that no docstring may begin with: a docstring begins with its subject or its verb."""

Graph = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Structure:
    """The measures of one distribution."""

    modules: int
    root_modules: int  # without __init__
    lines: int
    folders: dict[str, int]  # package -> lines; "." is the root
    rooms: int
    arrows: int
    floors: int
    package_floors: int
    longest_chain: list[str]  # of modules, from the top; members of a circle are joined by " <-> "
    module_circles: list[list[str]]
    package_circles: list[list[str]]
    forbidden_openings: int


def measure(root: Path) -> Structure:
    """Measures the package whose folder is `root`."""
    files = {_module_name(root, path): path for path in hand_written(root)}
    imports = {module: _imports(module, path, files) for module, path in files.items()}
    packages = {module: _package(module) for module in files}
    between = {
        package: frozenset(packages[other] for module in files if packages[module] == package for other in imports[module])
        for package in set(packages.values())
    }
    between = {package: others - {package} for package, others in between.items()}
    folders: Counter[str] = Counter()
    for path in files.values():
        inside = path.relative_to(root).parts
        folders["." if len(inside) == 1 else inside[0]] += _line_count(path)
    rooms = {module: _room(module, path) for module, path in files.items()}
    arrows = {(rooms[module], rooms[other]) for module, others in imports.items() for other in others}
    chain = longest_chain(imports)
    return Structure(
        modules=len(files),
        root_modules=sum(path.parent == root and path.stem != "__init__" for path in files.values()),
        lines=folders.total(),
        folders=dict(sorted(folders.items())),
        rooms=len(set(rooms.values())),
        arrows=sum(source != target for source, target in arrows),
        floors=len(chain),
        package_floors=len(longest_chain(between)),
        longest_chain=chain,
        module_circles=circles(imports),
        package_circles=circles(between),
        forbidden_openings=len(forbidden_docstrings(root)),
    )


def hand_written(folder: Path) -> Iterator[Path]:
    """Yields the Python files below a folder, without generated ones."""
    for path in sorted(folder.rglob("*.py")):
        inside = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
        if not inside.startswith(tuple(f"{part}/" for part in GENERATED)) and ".venv" not in path.parts:
            first = path.read_text(encoding="utf-8").partition("\n")[0].lower()
            if not (first.startswith("#") and "generated" in first):
                yield path


def lines_by_file(root: Path = ROOT) -> dict[str, int]:
    """Counts the hand-written lines of each Python file of the repository, by its path."""
    files = [path for folder in FOLDERS for path in hand_written(root / folder)]
    return {path.relative_to(root).as_posix(): _line_count(path) for path in files}


def lines_by_folder() -> dict[str, int]:
    """Counts the hand-written lines of Python in each folder of the repository."""
    found = Counter(dict.fromkeys(FOLDERS, 0))
    for path, lines in lines_by_file().items():
        found[path.partition("/")[0]] += lines
    return dict(found)


def forbidden_docstrings(root: Path) -> list[str]:
    """Returns FILE:LINE: and the first words of each docstring, of an attribute too, that begins with a forbidden word.

    Folders of tests are left out.
    """
    found = []
    for path in (path for path in hand_written(root) if "tests" not in path.relative_to(root).parts):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for line, text in _strings(node):
                words = text.split(maxsplit=4)
                if words and words[0].rstrip(".,:;").capitalize() in FORBIDDEN_OPENINGS:
                    name = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    found.append(f"{name}:{line}: {' '.join(words[:4])}")
    return found


def _strings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields line number and text of a body's strings: its docstring, and the docstrings of its attributes."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        for statement in node.body:
            match statement:
                case ast.Expr(value=ast.Constant(value=str(text)), lineno=line):
                    yield line, text


def _module_name(root: Path, path: Path) -> str:
    parts = (root.name, *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _package(module: str) -> str:
    """Returns the first two parts of a module's name: a package, or a module beside the packages."""
    return ".".join(module.split(".")[:2])


def _room(module: str, path: Path) -> str:
    """Returns the folder of a module, as a package."""
    return module if path.stem == "__init__" else module.rpartition(".")[0]


def _line_count(path: Path) -> int:
    """Returns the number of a module's lines, without those of generated sections."""
    return len(SECTION.sub("", path.read_text(encoding="utf-8")).splitlines())


def _imports(module: str, path: Path, modules: Mapping[str, Path]) -> frozenset[str]:
    """Returns the given modules that one of them imports."""
    found: set[str] = set()
    package = module if path.stem == "__init__" else module.rpartition(".")[0]
    for node in _running(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(_known(alias.name, modules) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base]).rstrip(".")
            for alias in node.names:
                found.add(name if (name := f"{base}.{alias.name}") in modules else _known(base, modules))
    return frozenset(found - {"", module})


def _known(name: str, modules: Mapping[str, Path]) -> str:
    return name if name in modules else ""


def _running(node: ast.AST) -> Iterator[ast.AST]:
    """Yields a tree's nodes, except those that only type checkers read."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            for other in child.orelse:
                yield from (other, *_running(other))
            continue
        yield child
        yield from _running(child)


def circles(graph: Graph) -> list[list[str]]:
    """Returns the strongly connected components of two nodes or more, sorted."""
    return sorted(sorted(group) for group in _components(graph) if len(group) > 1)


def longest_chain(graph: Graph) -> list[str]:
    """Returns the longest path through a graph whose circles are collapsed into one node each."""
    group_of = {node: group for group in _components(graph) for node in group}

    @cache
    def chain(group: frozenset[str]) -> tuple[str, ...]:
        below = {group_of[other] for node in group for other in graph[node]} - {group}
        return (" <-> ".join(sorted(group)), *_longest([chain(other) for other in below]))

    return list(_longest([chain(group) for group in group_of.values()]))


def _longest(chains: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the longest chain; the last by name where several are equally long."""
    return max(chains, key=lambda chain: (len(chain), chain), default=())


def _components(graph: Graph) -> list[frozenset[str]]:
    """Finds the strongly connected components by Tarjan's algorithm."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[frozenset[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            position = stack.index(node)
            found.append(frozenset(stack[position:]))
            del stack[position:]

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found
