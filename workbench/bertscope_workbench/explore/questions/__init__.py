"""The questions that the page asks its server, by name: each reads a body and yields events."""

from collections.abc import AsyncGenerator, Callable, Mapping
from types import MappingProxyType

from bertscope import AsyncClient

from bertscope_workbench.explore.body import Body
from bertscope_workbench.explore.questions.annotated import pairs, relations
from bertscope_workbench.explore.questions.attribute import attribute
from bertscope_workbench.explore.questions.compare import compare
from bertscope_workbench.explore.questions.find import corpus, find, find_means, find_outstanding
from bertscope_workbench.explore.questions.find_files import directions
from bertscope_workbench.explore.questions.inspect import inspect, worth
from bertscope_workbench.explore.questions.layers import lens
from bertscope_workbench.explore.questions.methods import methods
from bertscope_workbench.explore.questions.models import compress, load, models, unload
from bertscope_workbench.explore.questions.sentences import describe, rows, table
from bertscope_workbench.explore.questions.trace import patched, trace
from bertscope_workbench.explore.streams import Event

Question = Callable[[AsyncClient, Body], AsyncGenerator[Event, None]]

QUESTIONS: Mapping[str, Question] = MappingProxyType(
    {
        question.__name__: question
        for question in (
            inspect,
            worth,
            attribute,
            compare,
            pairs,
            relations,
            table,
            rows,
            describe,
            corpus,
            find,
            find_means,
            find_outstanding,
            directions,
            lens,
            trace,
            patched,
            methods,
            models,
            load,
            unload,
            compress,
        )
    }
)
"""Every question; its name is that of its function, and its address `POST /api/<name>`."""
