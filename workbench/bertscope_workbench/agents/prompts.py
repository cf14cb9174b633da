"""Prompts for usual tasks, and the resources of a server: its models, all its tools, and full results."""

from dataclasses import dataclass

from bertscope.errors import invalid_argument
from mcp import types


@dataclass(frozen=True)
class Task:
    """A usual task: the arguments that a person gives, and the words that an agent gets."""

    about: str
    arguments: dict[str, str]
    text: str


TASKS = {
    "what_does_it_know": Task(
        "Ask what a model knows, and which heads carry it",
        {"text": "A text with [MASK]: The keys to the cabinet [MASK] on the table.", "answer": "The right word: are"},
        "What does the model predict in `{text}`, and is it {answer}? Use fill_mask with candidates, then attribute_logits "
        "with {answer} against the likeliest other word and ablate, then fill_mask again without the three heads that matter "
        "most. Say ranks and probabilities before and after, and that one text proves nothing about others.",
    ),
    "which_heads_matter": Task(
        "Find the heads that can be removed",
        {"texts": "Texts of the kind that the model is used for"},
        "Which heads of the model can be removed with the least loss? Use sweep_heads with an objective of maskedLmLoss on: "
        "{texts}. Report the heads whose interval is below 0.01 nats, and those that matter most. Heads that are harmless one "
        "by one need not be so together: check the set by sweep_heads with sets.",
    ),
    "compare_sentences": Task(
        "Test a model on minimal pairs: grammar, or stereotypes",
        {"pairs": "Pairs of sentences, the right or the first one first"},
        "Which sentence of each pair does the model prefer? Use compare_texts with one set for each pair: {pairs}. Report the "
        "accuracy with its interval by group, and the pairs that it gets wrong with the difference of their scores.",
    ),
    "which_words_decide": Task(
        "Find the words that made a prediction",
        {"text": "A text", "target": "A label, or the answer at a [MASK]"},
        "Which words of `{text}` made the model say {target}? Use attribute_words (method shapley), and say how far the values "
        "sum to the score. Check the two largest by leaving these words out.",
    ),
    "compare_models": Task(
        "Compare a compressed model with its original",
        {"models": "Two models by name: the original and the small one"},
        "What did {models} lose, and what was won? list_models tells their sizes and what was done. Compare fill_mask on ten "
        "masked texts of the user's domain, compare_attention and compare_representations; for speed use benchmark_models "
        "if it is offered. Say quality beside speed.",
    ),
}


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
