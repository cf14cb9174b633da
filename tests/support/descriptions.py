"""Replies of DescribeAttention, ScoreRelations and ScoreFeatures, made from random numbers of each text."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from bertscope.v1 import attention_relations_pb2 as relations_pb2
from bertscope.v1 import attention_statistics_pb2 as statistics_pb2
from bertscope.v1 import common_pb2

PROVENANCE = common_pb2.Provenance(
    model="models/fake", weights_digest="sha256:" + "0" * 64, numbering=common_pb2.NUMBERING_ZERO_BASED
)
STATISTICS = [number for number in statistics_pb2.AttentionStatistic.values() if number]
PATTERNS = [number for number in statistics_pb2.AttentionPattern.values() if number]
OTHER_TEXT = statistics_pb2.ATTENTION_STATISTIC_OTHER_TEXT


def sums(values: np.ndarray) -> statistics_pb2.HeadSums:
    """The sums of [texts, layers, heads]."""
    return statistics_pb2.HeadSums(texts=len(values), sums=values.sum(0).ravel(), squares=(values**2).sum(0).ravel())


class Numbers:
    """The numbers of texts: every head has its own mean, every text its own noise."""

    def __init__(self, texts: int, layers: int, heads: int, seed: int = 0) -> None:
        generator = np.random.default_rng(seed)
        shape = texts, layers, heads
        self.texts, self.layers, self.heads = shape
        self.tokens = generator.integers(5, 40, texts)
        mean = np.random.default_rng(99).beta(0.6, 1.6, (len(STATISTICS), 1, layers, heads))
        self.statistics = np.clip(mean + 0.03 * generator.standard_normal((len(STATISTICS), *shape)), 0, None)
        scores = np.random.default_rng(98).dirichlet(np.full(len(PATTERNS), 0.5), (layers, heads))
        noise = 0.08 * generator.standard_normal((*shape, len(PATTERNS)))
        self.scores = np.clip(scores + noise, 0, 1)
        profile = np.random.default_rng(97).dirichlet(np.full(6, 0.3), layers * heads)
        self.divergences = np.stack([divergences(profile)] * texts) * generator.uniform(0.9, 1.1, (texts, 1, 1))


def divergences(rows: np.ndarray) -> np.ndarray:
    """The Jensen-Shannon divergences between rows, nats."""
    middle = (rows[:, None] + rows[None]) / 2

    def entropy(values: np.ndarray) -> np.ndarray:
        return -(values * np.log(np.clip(values, 1e-300, None))).sum(-1)

    found = entropy(middle) - (entropy(rows)[:, None] + entropy(rows)[None]) / 2
    np.fill_diagonal(found, 0)
    return np.clip(found, 0, None)


def description(
    numbers: Numbers, texts: slice = slice(None), *, pairs: bool = True, distances: bool = False, layers: Sequence[int] = ()
) -> statistics_pb2.DescribeAttentionResponse:
    """The reply about some of the texts."""
    scores = numbers.scores[texts]
    classes = scores.argmax(-1)
    result = statistics_pb2.DescribeAttentionResponse(
        layers=layers or range(numbers.layers),
        heads=numbers.heads,
        texts=len(scores),
        tokens=int(numbers.tokens[texts].sum()),
        truncated_texts=1,
        provenance=PROVENANCE,
    )
    for index, statistic in enumerate(STATISTICS):
        if pairs or statistic != OTHER_TEXT:
            result.statistics.add(statistic=statistic, sums=sums(numbers.statistics[index][texts]))
    for index, pattern in enumerate(PATTERNS):
        counts = (classes == index).sum(0).ravel()
        result.patterns.add(pattern=pattern, texts=counts, scores=sums(scores[..., index]))
    if distances:
        found = numbers.divergences[texts]
        result.head_distances.texts = len(found)
        result.head_distances.sums.extend(found.sum(0).ravel())
    return result


def relation_scores(
    relations: dict[str, int], layers: int, heads: int, texts: int = 40, seed: int = 0, *, details: bool = True
) -> relations_pb2.ScoreRelationsResponse:
    """The reply about texts of which each has a number of pairs of each relation."""
    generator = np.random.default_rng(seed)
    result = relations_pb2.ScoreRelationsResponse(layers=layers, heads=heads, texts=texts, provenance=PROVENANCE)
    for index, (name, pairs) in enumerate(relations.items()):
        skill = np.random.default_rng(index).beta(0.4, 3, (2, layers, heads))
        offsets = generator.choice([-1, 1, 2, -2, 3], (texts, pairs), p=[0.4, 0.25, 0.15, 0.1, 0.1])
        correct = generator.binomial(pairs, skill, (texts, 2, layers, heads))
        score = relations_pb2.RelationScores(relation=name, pairs=texts * pairs, skipped_pairs=2, chance_pairs=texts * pairs)
        for offset, count in zip(*np.unique(offsets, return_counts=True), strict=True):
            score.offsets.add(offset=offset, pairs=count)
        for direction, directed in enumerate((score.forward, score.backward)):
            directed.CopyFrom(_directed(correct[:, direction], generator))
        result.relations.append(score)
        for text in range(texts if details else 0):
            counts = {"forward_correct": correct[text, 0].ravel(), "backward_correct": correct[text, 1].ravel()}
            result.details.add(text_index=text, relation=index, offsets=offsets[text], **counts)
    return result


def _directed(correct: np.ndarray, generator: np.random.Generator) -> relations_pb2.DirectedScores:
    weights: Any = generator.random(correct.shape)
    return relations_pb2.DirectedScores(
        largest_weight=sums(weights),
        largest_weight_by_chance=sums(weights / 2),
        correct=correct.sum(0).ravel(),
        correct_by_chance=correct.sum(0).ravel() * 0.3,
    )


def feature_scores(
    features: Sequence[str], layers: int, heads: int, texts: int = 9, seed: int = 0
) -> relations_pb2.ScoreFeaturesResponse:
    """The reply about texts that have all features."""
    generator = np.random.default_rng(seed)
    result = relations_pb2.ScoreFeaturesResponse(layers=layers, heads=heads, texts=texts, provenance=PROVENANCE)
    for name in features:
        values = generator.beta(0.5, 3, (2, texts, layers, heads))
        result.features.add(feature=name, attention=sums(values[0]), from_first_special=sums(values[1]))
    return result
