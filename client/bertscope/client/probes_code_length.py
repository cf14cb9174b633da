# Generated from bertscope/questions/probes/code_length_calls.py. Do not edit: change that file, and run `make client`.
"""Calls that measure description lengths: `measure_code_length`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.probes import ProbeCalls
from bertscope.questions.probes.code_length import CodedTexts, CodeLengthProgress, CodeLengths, code_lengths, coded_texts
from bertscope.questions.probes.probes import Pooling
from bertscope.values import validation
from bertscope.values.all_interventions import Interventions
from bertscope.values.labelled_texts import ProbeText, names_of
from bertscope.values.messages import Numbers
from bertscope.values.models import Model


class CodeLengthCalls(ProbeCalls):
    """The methods of `Client` that measure description lengths."""

    def measure_code_length(
        self,
        texts: ProbeText | Iterable[ProbeText],
        *,
        dev: ProbeText | Iterable[ProbeText] = (),
        labels: str | Iterable[str] | None = None,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        pooling: Pooling = "mean",
        l2: float | None = None,
        hidden_units: SupportsIndex = 0,
        max_epochs: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[CodeLengthProgress], object] | None = None,
        timeout: float | None = None,
    ) -> CodeLengths:
        """Measures how many bits the labels of words take, given the states of each layer: a probe that reads them with ease
        makes a short code (minimum description length by online coding, Voita and Titov 2020).

        Texts are shuffled by `seed` and divided where .1, .2, .4, ... 50 and 100 % of them end. The first part's labels take
        log2(classes) bits each; those of each next part -log2 of their probability by probes that were trained on all parts
        before, or as the first's if the uniform code is better on `dev`. `dev`, a tenth of the texts unless given, ends each
        training and is not coded. Beside it the code of a control task's labels. The arguments are those of `train_probe`,
        which is called once for each part; `timeout` holds for each.
        """
        given, held = validation.instances("texts", texts, ProbeText), validation.instances("dev", dev, ProbeText)
        names = names_of([*given, *held]) if labels is None else validation.texts("labels", labels)
        coded: CodedTexts = coded_texts(given, held, validation.uint64("seed", seed))
        found = []
        for number, (begin, end) in enumerate(zip(coded.ends[:-1], coded.ends[1:], strict=True)):
            if on_progress is not None:
                on_progress(CodeLengthProgress(number, len(coded.ends) - 1))
            probes = self.train_probe(
                coded.texts[:begin],
                dev=coded.dev,
                test=coded.texts[begin:end],
                labels=names,
                model=model,
                layers=layers,
                pooling=pooling,
                l2=l2,
                hidden_units=hidden_units,
                max_epochs=max_epochs,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
                timeout=timeout,
            )
            found.append(probes)
        if on_progress is not None:
            on_progress(CodeLengthProgress(len(found), len(found)))
        return code_lengths(found, coded.ends)
