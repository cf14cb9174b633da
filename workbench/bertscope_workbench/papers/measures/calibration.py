"""Measures whether the confidence of predictions is their accuracy."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
from bertscope.values.display import record
from bertscope.values.models import short_name

from bertscope_workbench.papers.asking import Asking
from bertscope_workbench.papers.estimates import Measured, NotAsked, Values, bootstrapped, halves, paired
from bertscope_workbench.papers.items.labelled import label_index, task_of
from bertscope_workbench.papers.items.treebank import given_bank
from bertscope_workbench.papers.measures.fillings import filled, log_probabilities
from bertscope_workbench.papers.measures.sentences import masked_words, sentences, source
from bertscope_workbench.papers.pictures_data import curves

Predicted = Literal["masks", "labels"]
BINS = 10
SENTENCES = 60
"""The most sentences of a treebank."""
TEMPERATURES = np.exp(np.linspace(math.log(0.25), math.log(4.0), 80))
"""Temperatures that are tried; 1 itself is none, as there would be no difference to give an interval of."""
CLOSEST = 1e-6
"""Probabilities nearer to 0 and 1 than this are taken as that near."""
SAME = 1e-5
"""Nats by which two log-probabilities of the same prediction may differ."""


@record
class Predictions:
    """The likeliest pieces at masked words, or the likeliest labels of texts."""

    confidence: Values
    """Their probabilities, [predictions]."""
    right: Values
    """1 for a right one, else 0, [predictions]."""
    groups: npt.NDArray[np.int64]
    """The number of each one's sentence or text, from 0."""
    truth: Sequence[str]
    """The right answers."""
    data: str
    """Where they are from."""


def accuracy(asking: Asking, *, of: Predicted = "masks") -> Measured:
    """Returns the share of predictions that are right, beside that of always the commonest answer; those of a sentence are
    averaged.

    `of` is "masks", words of sentences that are single pieces, each masked alone, or "labels", those that a classifier gives to
    labelled texts in the folder of --data. Raises NotAsked without a classifier or such texts.
    """
    found = _predictions(asking, of)
    commonest = Counter(found.truth).most_common(1)[0][0]
    control = [float(each == commonest) for each in found.truth]
    return paired(found.right, control, groups=found.groups.tolist(), bounds=(-1.0, 1.0), data=found.data)


def error(asking: Asking, *, of: Predicted = "masks") -> Measured:
    """Returns the calibration error of predictions: `calibration_error`, resampled by sentences; `of` is as in `accuracy`."""
    return _error(_predictions(asking, of))


def temperature_gain(asking: Asking, *, of: Predicted = "masks") -> Measured:
    """Returns how much a temperature lowers the logarithmic loss of "the likeliest answer is right", nats: fitted on every
    second sentence and scored on the others (Guo et al. 2017, section 4.2, for the odds of the likeliest answer); `of` is as in
    `accuracy`."""
    return _gain(_predictions(asking, of))


def calibration_error(confidence: Values, right: Values, weights: Values | None = None, *, bins: int = BINS) -> float:
    """Returns the calibration error of predictions, 0 to 1: the root of the mean squared difference of confidence and accuracy,
    over bins with equally many predictions, less what is expected of chance (Kumar et al. 2019, section 4).

    `weights` say how often each prediction counts, as in a resample; the variance of a bin's accuracy that is taken off is that
    of a mean with these weights, so that resamples are as unbiased. A calibrated model has about 0.
    """
    weights = np.ones(len(confidence)) if weights is None else weights
    order = np.argsort(confidence, kind="stable")
    squares = 0.0
    for chosen in np.array_split(order, bins):
        own = weights[chosen]
        total = own.sum()
        if not total:
            continue
        share = own / total
        gaps = confidence[chosen] - right[chosen]
        mean = float(share @ gaps)
        spread = float(share @ (gaps - mean) ** 2)
        repeated = float(share @ share)
        squares += total * (mean**2 - spread * repeated / (1 - repeated) if repeated < 1 else mean**2)
    return math.sqrt(max(squares / weights.sum(), 0.0))


def fitted_temperature(confidence: Values, right: Values) -> float:
    """Returns the temperature in 0.25 to 4 by which the odds of predictions fit best; above 1, they are too confident."""
    return float(min(TEMPERATURES, key=lambda each: losses(confidence, right, each).mean()))


def losses(confidence: Values, right: Values, temperature: float = 1.0) -> Values:
    """Returns the logarithmic loss of each prediction being right, nats, with its log-odds divided by a temperature."""
    held = np.clip(confidence, CLOSEST, 1 - CLOSEST)
    odds = np.log(held / (1 - held)) / temperature
    return np.where(right > 0, np.logaddexp(0, -odds), np.logaddexp(0, odds))


def _error(found: Predictions) -> Measured:
    groups = int(found.groups.max()) + 1

    def resampled(drawn: npt.NDArray[np.int64]) -> float:
        times = np.bincount(drawn, minlength=groups)[found.groups].astype(np.float64)
        return calibration_error(found.confidence, found.right, times)

    parts = np.array_split(np.argsort(found.confidence, kind="stable"), BINS)
    confidence, accuracy = ([float(values[part].mean()) for part in parts] for values in (found.confidence, found.right))
    return bootstrapped(
        resampled,
        groups,
        data=found.data,
        picture=curves("confidence", confidence, "share right", {"model": accuracy, "calibrated": confidence}),
        notes=[f"mean confidence {found.confidence.mean():.3f}, accuracy {found.right.mean():.3f}"],
    )


def _gain(found: Predictions) -> Measured:
    fitting = np.isin(found.groups, halves(int(found.groups.max()) + 1)[0])
    temperature = fitted_temperature(found.confidence[fitting], found.right[fitting])
    before, after = (losses(found.confidence[~fitting], found.right[~fitting], each) for each in (1.0, temperature))
    return paired(
        before,
        after,
        groups=found.groups[~fitting].tolist(),
        data=found.data,
        notes=[f"the temperature is {temperature:.2f}"],
    )


def _predictions(asking: Asking, of: Predicted) -> Predictions:
    return asking.kept(f"calibration of {of}", lambda: PREDICTIONS[of](asking))


def _labels(asking: Asking) -> Predictions:
    """Returns the labels of a classifier: of the fine-tuned copy if there is one."""
    labelled, model = task_of(asking)
    right, found, truth = list[float](), list[float](), list[str]()
    known = iter(labelled.items)
    for answer in asking.client.classify(labelled.inputs, model=model, truncate=True, timeout=asking.timeout):
        asking.show(len(right) + 1, len(labelled.items))
        label = next(known)[1]
        index = label_index(model, label)
        right.append(float(answer.labels[0].index == index))
        found.append(answer.labels[0].probability)
        truth.append(model.labels[index])
    name = f"{len(right)} texts of {labelled.path.name}, labelled by {short_name(model)}"
    return Predictions(np.array(found), np.array(right), np.arange(len(right)), truth, name)


def _masks(asking: Asking) -> Predictions:
    bank = given_bank(asking)
    texts = sentences(asking) if bank is None else [sentence.text for sentence in bank.sentences[:SENTENCES]]
    asked = masked_words(texts)
    there = log_probabilities(asking, ((text, word) for text, word, _ in asked), single=True)
    likeliest = {
        answer.text: answer.masks[0].predictions[0] for answer in filled(asking, [text for text, _, _ in asked], top_k=1)
    }
    kept = [(text, word, number) for text, word, number in asked if (text, word) in there and text in likeliest]
    if not kept:
        raise NotAsked("the model's vocabulary has none of the words")
    _, places = np.unique([number for _, _, number in kept], return_inverse=True)
    return Predictions(
        np.array([likeliest[text].probability for text, _, _ in kept]),
        np.array([float(there[text, word] > likeliest[text].log_probability - SAME) for text, word, _ in kept]),
        places.astype(np.int64),
        [word.lower() for _, word, _ in kept],
        f"{len(kept)} words of {source(asking, len(texts)) if bank is None else bank.source}",
    )


PREDICTIONS: Mapping[Predicted, Callable[[Asking], Predictions]] = {"masks": _masks, "labels": _labels}
"""By what is predicted: how it is asked."""
