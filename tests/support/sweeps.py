"""Sweeps through gRPC, and the same numbers by another way: FillMask and Classify with interventions, text by text."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from bertscope.v1 import ablation_pb2 as ablation
from bertscope.v1 import classification_pb2 as classification
from bertscope.v1 import cloze_pb2 as cloze
from bertscope.v1 import common_pb2 as common
from bertscope.v1 import representation_states_pb2 as states
from numpy.typing import NDArray
from scipy import stats
from scipy.spatial.distance import cosine
from transformers import AutoTokenizer

from tests.support.harness import CALL_SECONDS, Host
from tests.support.plain import word_numbers
from tests.support.tiny import LABELS, TAGS

Request = ablation.SweepHeadsRequest
Mode = common.HeadIntervention
Heads = tuple[tuple[int, tuple[int, ...]], ...]
Changes = Mapping[tuple[int, int], tuple[int, float]]
"""What is done to some heads: (layer, head) to a mode and its factor."""

ZERO, UNIFORM, MEAN, SCALE = Mode.MODE_ZERO, Mode.MODE_UNIFORM, Mode.MODE_MEAN, Mode.MODE_SCALE
FACTOR = -1.5
"""What MODE_SCALE scales by in these tests."""

REFERENCES = ("The nurse told the doctor.", "It isn't raining, and it wasn't raining when they left the city.")
PROMPTS = (
    ("Paris is the capital of [MASK].", ("france", "the")),
    ("The [MASK] sat on the mat.", ("cat", "unplayable song", "dog")),
    ("[MASK] is in the house.", ("the",)),
    ("When the rain finally stopped, the [MASK] who had been waiting in the old house ran out.", ("children", "man")),
)
MASKED = ("Paris is the capital of [MASK].", "The [MASK] sat on the [MASK].", "[MASK] said that she was late.")
LABELLED = (("The cat sat.", None, 0), ("Berlin is the capital.", "Isn't it?", 1), ("Nobody waited for the waiter.", None, 1))
RATED = (
    ("The cat sat.", None, 4.5),
    ("Berlin is the capital.", "Isn't it?", 0.0),
    ("Nobody waited for the waiter.", "The cat sat.", 2.25),
    ("The old house.", None, 2.25),
    ("They were old.", "a", -1.0),
)
SIMILAR = (
    ("The cat sat.", "The cat sat on the mat.", 4.5),
    ("Berlin is the capital.", "The old house.", 0.0),
    ("Nobody waited for the waiter.", "Nobody waited.", 2.25),
    ("They were old.", "Paris is the capital of France.", 1.0),
    ("The children ran.", "The man ran out.", 3.0),
)
LABEL_SETS = (
    ("The cat sat.", None, ("negative", "neutral")),
    ("Berlin is the capital.", "Isn't it?", ()),
    ("Nobody waited for the waiter.", None, ("positive",)),
    ("The old house.", None, ("negative", "positive", "neutral")),
    ("They were old.", "a", ("neutral",)),
)
PAIRS = (
    ("The cat sat.", "Cat the sat."),
    ("The unplayable song.", "The song unplayable."),
    ("They were old.", "They was old."),
)


def masked_lm(texts: Sequence[str], **fields: Any) -> ablation.Objective:
    return ablation.Objective(masked_lm_loss=ablation.MaskedLmLoss(texts=texts, **fields))


def cloze_prompts(prompts: Iterable[tuple[str, Sequence[str]]] = PROMPTS, **fields: Any) -> ablation.Objective:
    entries = [ablation.ClozePrompt(text=text, answers=answers) for text, answers in prompts]
    return ablation.Objective(cloze=ablation.ClozePrompts(prompts=entries, **fields))


def minimal_pairs(pairs: Iterable[tuple[str, str]] = PAIRS, **fields: Any) -> ablation.Objective:
    entries = [ablation.MinimalPair(good=good, bad=bad) for good, bad in pairs]
    return ablation.Objective(minimal_pairs=ablation.MinimalPairs(pairs=entries, **fields))


def labelled(texts: Iterable[tuple[str, str | None, int | str]] = LABELLED) -> ablation.Objective:
    def entry(text: str, pair: str | None, gold: int | str) -> ablation.LabelledText:
        given = text_input(text, pair)
        if isinstance(gold, str):
            return ablation.LabelledText(input=given, label=gold)
        return ablation.LabelledText(input=given, label_index=gold)

    return ablation.Objective(classification=ablation.LabelledTexts(texts=[entry(*text) for text in texts]))


def rated(texts: Iterable[tuple[str, str | None, float]] = RATED) -> ablation.Objective:
    entries = [ablation.RatedText(input=text_input(text, pair), value=value) for text, pair, value in texts]
    return ablation.Objective(regression=ablation.RatedTexts(texts=entries))


def similar(pairs: Iterable[tuple[str, str, float]] = SIMILAR, **fields: Any) -> ablation.Objective:
    entries = [ablation.RatedText(input=text_input(text, pair), value=value) for text, pair, value in pairs]
    return ablation.Objective(similarity=ablation.SimilarTexts(pairs=entries, **fields))


def label_sets(texts: Iterable[tuple[str, str | None, Sequence[str]]] = LABEL_SETS) -> ablation.Objective:
    entries = [ablation.LabelSet(input=text_input(text, pair), labels=labels) for text, pair, labels in texts]
    return ablation.Objective(multi_label=ablation.LabelSets(texts=entries))


def divergence(texts: Iterable[str] = MASKED) -> ablation.Objective:
    return ablation.Objective(divergence=ablation.Divergence(inputs=[text_input(text) for text in texts]))


def text_input(text: str, pair: str | None = None) -> common.TextInput:
    return common.TextInput(text=text, text_pair=pair)


def head_set(heads: Heads) -> ablation.HeadSet:
    return ablation.HeadSet(layers=[common.LayerHeads(layer=layer, heads=numbers) for layer, numbers in heads])


def heads_of(given: ablation.HeadSet) -> Heads:
    return tuple((layer.layer, tuple(layer.heads)) for layer in given.layers)


@dataclass
class Sweep:
    """One whole stream, checked for its order."""

    responses: list[ablation.SweepHeadsResponse]
    start: ablation.SweepStart = field(init=False)
    effects: list[ablation.HeadEffect] = field(init=False)
    points: list[ablation.CurvePoint] = field(init=False)
    summary: ablation.SweepSummary = field(init=False)

    def __post_init__(self) -> None:
        kinds = [response.WhichOneof("event") for response in self.responses]
        assert kinds[0] == "start" and kinds[-1] == "summary", kinds
        assert set(kinds[1:-1]) in ({"effect"}, {"point"}), kinds
        self.start, self.summary = self.responses[0].start, self.responses[-1].summary
        self.effects = [response.effect for response in self.responses if response.HasField("effect")]
        self.points = [response.point for response in self.responses if response.HasField("point")]
        assert self.start.total == len(self.effects) + len(self.points)
        metrics = [baseline.metric for baseline in self.start.baseline]
        for event in (*self.effects, *self.points):
            assert [found.metric for found in event.metrics] == metrics
        assert 0 < self.summary.layer_passes <= self.summary.full_layer_passes
        assert self.summary.seconds > 0
        assert self.summary.helped + self.summary.hurt <= len(self.effects)

    @property
    def baseline(self) -> list[float]:
        return [found.score for found in self.start.baseline]

    @property
    def scores(self) -> dict[Heads, list[float]]:
        """Scores of each set, by its heads."""
        found = {heads_of(effect.heads): [metric.score for metric in effect.metrics] for effect in self.effects}
        assert len(found) == len(self.effects)
        return found

    @property
    def numbers(self) -> NDArray[np.float64]:
        """Everything measured but the time, in order of the sets; metrics that lack a number have -1 for it."""
        events = sorted(self.effects, key=lambda effect: heads_of(effect.heads)) or self.points
        rows = [_numbers(metric) for event in events for metric in event.metrics]
        return np.array([number for row in (self.baseline, *rows) for number in row])


def _numbers(metric: ablation.MetricEffect) -> list[float]:
    given = [getattr(metric, name) if metric.HasField(name) else -1.0 for name in ("low", "high", "mcnemar_p")]
    return [metric.score, metric.difference, *given]


def sweep(host: Host, seconds: float = CALL_SECONDS, **fields: Any) -> Sweep:
    fields.setdefault("mode", ZERO)
    return Sweep(list(host.ablation.SweepHeads(Request(**fields), timeout=seconds)))


def rank(host: Host, **fields: Any) -> ablation.RankHeadsResponse:
    reply = host.ablation.RankHeads(ablation.RankHeadsRequest(**fields), timeout=CALL_SECONDS)
    assert isinstance(reply, ablation.RankHeadsResponse)
    return reply


def matrix(tensor: common.Tensor) -> NDArray[np.float64]:
    assert tensor.dtype == common.DATA_TYPE_FLOAT32
    return np.frombuffer(tensor.data, "<f4").reshape(tensor.shape).astype(np.float64)


def changed(base: Changes, heads: Heads, mode: int, factor: float = 1.0) -> dict[tuple[int, int], tuple[int, float]]:
    """Some heads changed on top of other changes; a head that was changed before is changed anew."""
    return dict(base) | {(layer, head): (mode, factor) for layer, numbers in heads for head in numbers}


def interventions(changes: Changes) -> list[common.HeadIntervention]:
    return [
        common.HeadIntervention(layer=layer, heads=[head], mode=mode, scale=factor if mode == SCALE else None)
        for (layer, head), (mode, factor) in changes.items()
    ]


@dataclass(frozen=True)
class Measurer:
    """Scores of objectives on a model whose heads are changed, asked for through FillMask and Classify."""

    host: Host
    model: str
    folder: Path
    baselines: dict[Hashable, Sequence[NDArray[np.float64]]] = field(default_factory=dict)
    """What divergences are measured from, asked for once."""

    @cached_property
    def tokenizer(self) -> Any:
        return AutoTokenizer.from_pretrained(self.folder)

    def fields(self, changes: Changes) -> dict[str, Any]:
        means = any(mode == MEAN for mode, _ in changes.values())
        return {"model": self.model, "interventions": interventions(changes), "reference_texts": REFERENCES if means else ()}

    def logs(self, texts: Sequence[str], changes: Changes = {}) -> list[NDArray[np.float64]]:  # noqa: B006
        """For each text, natural logarithms of probabilities at its masks [masks, vocabulary]."""
        loaded = self.host.server.registry.find(self.model).loaded
        assert loaded is not None
        size = loaded.encoder.shape.vocabulary_size
        request = cloze.FillMaskRequest(texts=texts, top_k=size, **self.fields(changes))
        reply = self.host.cloze.FillMask(request, timeout=CALL_SECONDS)
        found = []
        for result in reply.results:
            logs = np.full((len(result.masks), size), np.nan)
            for row, mask in enumerate(result.masks):
                logs[row, [p.piece_ids[0] for p in mask.predictions]] = [p.log_probability for p in mask.predictions]
            assert np.isfinite(logs).all()
            found.append(logs)
        return found

    def label_logs(self, inputs: Sequence[common.TextInput], changes: Changes = {}) -> NDArray[np.float64]:  # noqa: B006
        """Natural logarithms of the probabilities of all labels [inputs, labels]."""
        request = classification.ClassifyRequest(inputs=inputs, **self.fields(changes))
        reply = self.host.classification.Classify(request, timeout=CALL_SECONDS)
        ordered = [sorted(result.labels, key=lambda label: label.index) for result in reply.results]
        return np.log([[label.probability for label in labels] for labels in ordered])

    def scores(self, objective: ablation.Objective, changes: Changes, base: Changes = {}) -> list[float]:  # noqa: B006
        """The mean of each metric over the items; `base` holds in the untouched run too."""
        return self.values(objective, changes, base).mean(axis=1).tolist()

    def values(self, objective: ablation.Objective, changes: Changes, base: Changes = {}) -> NDArray[np.float64]:  # noqa: B006
        """[metrics, items]."""
        kind = str(objective.WhichOneof("kind"))
        more = (base,) if kind == "divergence" else ()
        values: NDArray[np.float64] = getattr(self, f"_{kind}")(getattr(objective, kind), changes, *more)
        return values

    def _cloze(self, prompts: ablation.ClozePrompts, changes: Changes) -> NDArray[np.float64]:
        rows = []
        logs = self.logs([prompt.text for prompt in prompts.prompts], changes)
        for prompt, (mask,) in zip(prompts.prompts, logs, strict=True):
            spelled = [self.tokenizer.encode(answer, add_special_tokens=False) for answer in prompt.answers]
            golds = [pieces[0] for pieces in spelled if len(pieces) == 1]
            assert golds
            best = max(mask[golds])
            ranked = 1 + int((mask > best).sum())
            rows.append([float(ranked == 1), 1 / ranked, -best])
        return np.array(rows).T

    def _classification(self, texts: ablation.LabelledTexts, changes: Changes) -> NDArray[np.float64]:
        logs = self.label_logs([text.input for text in texts.texts], changes)
        golds = [text.label_index for text in texts.texts]
        return np.stack([logs.argmax(axis=1) == golds, -logs[np.arange(len(golds)), golds]])

    def _regression(self, texts: ablation.RatedTexts, changes: Changes) -> NDArray[np.float64]:
        """Correlations by scipy, the same for each item."""
        request = classification.PredictValuesRequest(inputs=[text.input for text in texts.texts], **self.fields(changes))
        reply = self.host.classification.PredictValues(request, timeout=CALL_SECONDS)
        found, golds = np.array([result.value for result in reply.results]), np.array([text.value for text in texts.texts])
        constant = np.ptp(found) <= 1e-6 * np.abs(found).max()  # as with all heads at zero: [CLS] sees nothing else
        correlations = (0.0 if constant else compare(found, golds).statistic for compare in (stats.pearsonr, stats.spearmanr))
        return np.stack([*(np.full(len(golds), one) for one in correlations), (found - golds) ** 2])

    def _similarity(self, texts: ablation.SimilarTexts, changes: Changes) -> NDArray[np.float64]:
        """Correlations by scipy of cosines of the vectors that EmbedTexts gives, the same for each item."""
        inputs = [common.TextInput(text=text) for pair in texts.pairs for text in (pair.input.text, pair.input.text_pair)]
        request = states.EmbedTextsRequest(inputs=inputs, pooling=texts.pooling, **self.fields(changes))
        reply = self.host.representation.EmbedTexts(request, timeout=CALL_SECONDS)
        vectors = np.frombuffer(reply.vectors.data, "<f4").reshape(len(inputs), -1).astype(np.float64)
        cosines = [1 - cosine(one, other) for one, other in zip(vectors[0::2], vectors[1::2], strict=True)]
        golds = [pair.value for pair in texts.pairs]
        found = [compare(cosines, golds).statistic for compare in (stats.pearsonr, stats.spearmanr)]
        return np.array([[value] * len(golds) for value in found])

    def _multi_label(self, texts: ablation.LabelSets, changes: Changes) -> NDArray[np.float64]:
        """F1 of all labels, the same for each item."""
        shares = np.exp(self.label_logs([text.input for text in texts.texts], changes))
        golds = np.array([[name in text.labels for name in LABELS[: shares.shape[1]]] for text in texts.texts])
        found = shares > 0.5
        f1 = 2 * (found & golds).sum() / (found.sum() + golds.sum())
        losses = -np.log(np.where(golds, shares, 1 - shares)).mean(axis=1)
        return np.stack([np.full(len(golds), f1), (found == golds).all(axis=1), losses])

    def distributions(self, inputs: Sequence[common.TextInput], changes: Changes = {}) -> Sequence[NDArray[np.float64]]:  # noqa: B006
        """For each text, natural logarithms of probabilities [places, choices]: of labels, of each word's labels, of whether
        each label holds, or of pieces at masks."""
        loaded = self.host.server.registry.find(self.model).loaded
        assert loaded is not None
        capabilities = loaded.encoder.capabilities
        if capabilities.token_classification:
            return self.word_logs(inputs, changes)
        if capabilities.multi_label:
            return [np.stack([logs, np.log1p(-np.exp(logs))], axis=1) for logs in self.label_logs(inputs, changes)]
        if capabilities.classification:
            return list(self.label_logs(inputs, changes)[:, None])
        return self.logs([one.text for one in inputs], changes)

    def word_logs(self, inputs: Sequence[common.TextInput], changes: Changes = {}) -> list[NDArray[np.float64]]:  # noqa: B006
        """For each text, natural logarithms of the probabilities of each word's labels [words, labels]."""
        texts = [classification.TaggedInput(input=given) for given in inputs]
        request = classification.ClassifyTokensRequest(inputs=texts, top_k=len(TAGS), **self.fields(changes))
        reply = self.host.classification.ClassifyTokens(request, timeout=CALL_SECONDS)
        found = []
        for result in reply.results:
            ordered = [sorted(word.labels, key=lambda label: label.index) for word in result.words]
            found.append(np.log([[label.probability for label in labels] for labels in ordered]))
        return found

    def _divergence(self, given: ablation.Divergence, changes: Changes, base: Changes) -> NDArray[np.float64]:
        baseline = (given.SerializeToString(deterministic=True), frozenset(base.items()))
        if baseline not in self.baselines:
            self.baselines[baseline] = self.distributions(given.inputs, base)
        pairs = zip(self.baselines[baseline], self.distributions(given.inputs, changes), strict=True)
        divergences = [(np.exp(before) * (before - after)).sum(axis=1).mean() for before, after in pairs]
        return np.array([divergences])

    def _masked_lm_loss(self, given: ablation.MaskedLmLoss, changes: Changes) -> NDArray[np.float64]:
        """With every word masked, so that nothing has to be known of how words are chosen."""
        assert given.mask_share == 1
        losses = []
        for text in given.texts:
            pieces = self.tokenizer.encode(text, add_special_tokens=False)
            (logs,) = self.logs(["[MASK]" * len(pieces)], changes)
            losses.append(-logs[np.arange(len(pieces)), pieces].mean())
        return np.array([losses])

    def _minimal_pairs(self, given: ablation.MinimalPairs, changes: Changes) -> NDArray[np.float64]:
        rows = [[self._predicted(text) for text in (pair.good, pair.bad)] for pair in given.pairs]
        every = iter(self.logs([text for pair in rows for sentence in pair for text, _ in sentence], changes))
        sums = [[sum(next(every)[0, gold] for _, gold in sentence) for sentence in pair] for pair in rows]
        return np.array([[float(good > bad), good - bad] for good, bad in sums]).T

    def _predicted(self, text: str) -> list[tuple[str, int]]:
        """For each piece the text with it and the later pieces of its word masked, and the piece."""
        encoded = self.tokenizer(text, return_offsets_mapping=True)
        words = word_numbers(encoded, text)
        found = []
        for place, word in enumerate(words):
            if word is not None:
                last = max(other for other, which in enumerate(words) if which == word)
                found.append((self.with_masks(text, range(place, last + 1)), encoded["input_ids"][place]))
        return found

    def with_masks(self, text: str, places: Iterable[int]) -> str:
        """The text with masks instead of consecutive pieces, up to the end of a word."""
        encoded = self.tokenizer(text, return_offsets_mapping=True)
        places = list(places)
        begin, end = encoded["offset_mapping"][places[0]][0], encoded["offset_mapping"][places[-1]][1]
        masked = f"{text[:begin]}{self.tokenizer.mask_token * len(places)}{text[end:]}"
        expected = [self.tokenizer.mask_token_id if n in places else id_ for n, id_ in enumerate(encoded["input_ids"])]
        assert self.tokenizer(masked)["input_ids"] == expected
        return masked
