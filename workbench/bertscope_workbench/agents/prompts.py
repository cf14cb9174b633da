"""Prompts for usual tasks, and the resources of a server: its models, all its tools, and full results."""

from dataclasses import dataclass

from bertscope.errors import invalid_argument
from mcp import types

from bertscope_workbench.agents.contract import TOLD


@dataclass(frozen=True)
class Task:
    """A usual task: the arguments that a person gives, and the words that an agent gets."""

    about: str
    arguments: dict[str, str]
    text: str


TASKS = {name: Task(**values) for name, values in TOLD["prompts"].items()}


def prompts() -> list[types.Prompt]:
    """Returns the prompts of all tasks."""
    return [
        types.Prompt(
            name=name,
            description=task.about,
            arguments=[
                types.PromptArgument(name=each, description=said, required=True) for each, said in task.arguments.items()
            ],
        )
        for name, task in TASKS.items()
    ]


def prompt(name: str, arguments: dict[str, str]) -> types.GetPromptResult:
    """Returns a task's words. Raises InvalidArgument for an unknown task, and for a missing argument."""
    if name not in TASKS:
        raise invalid_argument("name", f"no prompt is called {name!r}; there are {', '.join(TASKS)}")
    task = TASKS[name]
    for each, said in task.arguments.items():
        if not arguments.get(each):
            raise invalid_argument(each, f"is missing: {said}")
    content = types.TextContent(text=task.text.format(**{each: arguments[each] for each in task.arguments}))
    return types.GetPromptResult(description=task.about, messages=[types.PromptMessage(role="user", content=content)])
