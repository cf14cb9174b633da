"""Reads dependency trees off attention: the maximum spanning tree of a map (Raganato and Tiedemann 2018)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from bertscope import Client, Model
from bertscope.errors import invalid_argument
from bertscope.questions.attention.maps import AttentionMaps
from bertscope.questions.attention.marked_texts import RelationText
from bertscope.questions.attention.sums import Counts, PerHead, divided, head_columns
from bertscope.rpc.async_many_texts import OnTexts, every_text_rejected
from bertscope.rpc.splitting import OnRejected
from bertscope.values import validation
from bertscope.values.display import ShownAsTable, counted
from bertscope.values.interventions import Interventions
from bertscope.values.merging import added, require_same, same_weights
from bertscope.values.messages import Numbers
from bertscope.values.positions import Span
from bertscope.values.results import Provenance, Token

from bertscope_workbench.analyses.streams import answers_of

__all__ = ["TreeScores", "score_trees"]

Weights = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tree:
    """The dependencies of a text's words: words that have pieces of their own, with the governor of each.

    Words without a piece of their own are left out, and so are words without a governor, but for the root.
    """

    words: tuple[Span, ...]
    """The words."""
    governors: tuple[int, ...]
    """Index of each word's governor among the words, -1 for the root."""


@dataclass(frozen=True, eq=False, repr=False)
class TreeScores(ShownAsTable):
    """Attachment scores of the trees read off maps, summed over texts."""

    _best = "directed"
    _whole = ("head",)

    layers: tuple[int, ...]
    """Layer of each row of the arrays."""
    heads: tuple[int, ...]
    """Head of each column of the arrays; empty if each layer has one map, the mean over its heads."""
    texts: int
    """The texts with a tree."""
    skipped_texts: int
    """The texts whose pairs are no tree."""
    words: int
    """The words with a governor."""
    directed: Counts
    """[layers, heads], the words whose governor is right; [layers, 1] for means over heads."""
    undirected: Counts
    """The same, the words that are linked with their governor in either direction."""
    previous: int
    """The words whose governor is the word before: a tree that branches to the right finds these."""
    following: int
    """The words whose governor is the word after: a tree that branches to the left finds these."""
    provenance: Provenance
    """Provenance of the maps."""

    def _heading(self) -> str:
        layers = len(self.layers)
        shape = counted("head", layers, len(self.heads)) if self.heads else counted("layer", layers)
        return f"<TreeScores: {shape}, {counted('text', self.texts)}, {counted('word', self.words)}, {self.provenance.model}>"

    def directed_score(self) -> PerHead:
        """Returns the share of words whose governor is right (unlabelled attachment score), 0 to 1; NaN without a word."""
        return divided(self.directed, self.words)

    def undirected_score(self) -> PerHead:
        """Returns the share of words that are linked with their governor, 0 to 1; NaN without a word."""
        return divided(self.undirected, self.words)

    @property
    def right_branching(self) -> float:
        """The score of the tree in which each word depends on the one before."""
        return self.previous / self.words if self.words else math.nan

    @property
    def left_branching(self) -> float:
        """The score of the tree in which each word depends on the one after."""
        return self.following / self.words if self.words else math.nan

    @property
    def branching_undirected(self) -> float:
        """The undirected score of both trees: the share of words whose governor is next to them."""
        return (self.previous + self.following) / self.words if self.words else math.nan

    @classmethod
    def merge(cls, parts: Iterable[TreeScores]) -> TreeScores:
        """Returns the scores of all texts of the parts. Raises InvalidArgument without a part or for other layers and heads,
        FailedPrecondition for models with other weights."""
        parts = [*parts]
        source = same_weights(part.provenance for part in parts)
        require_same(parts, ("layers", "heads"))
        return cls(
            layers=parts[0].layers,
            heads=parts[0].heads,
            provenance=source,
            **added(parts, ("texts", "skipped_texts", "words", "directed", "undirected", "previous", "following")),
        )

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Returns a row for each map: layer, head (missing for the mean over heads), texts, words, directed, undirected,
        right_branching, left_branching, branching_undirected."""
        branching = {name: getattr(self, name) for name in ("right_branching", "left_branching", "branching_undirected")}
        scores = {"directed": self.directed_score(), "undirected": self.undirected_score()}
        shape = len(self.layers), len(self.heads) or 1
        found = head_columns(shape, {}, texts=self.texts, words=self.words, **scores, **branching)
        heads = np.array(self.heads or [None], object)[found["head"]]
        return found | {"layer": np.array(self.layers)[found["layer"]], "head": heads}


def score_tree(text: RelationText, maps: AttentionMaps, *, by_head: bool) -> TreeScores:
    """Returns the scores of one text; maps: by pieces. Needs the extra "trees"."""
    members = piece_words(maps.tokens, spans_of(text))
    tree = gold_tree(text, np.unique(members[members >= 0]))
    weights = maps.attention.astype(np.float64)
    weights = weights if by_head else weights.mean(axis=1, keepdims=True)
    found = np.zeros((2, *weights.shape[:2]), np.int64)
    governors = np.array(tree.governors if tree else (), np.int64)
    root = int(np.flatnonzero(governors < 0)[0]) if tree else -1
    dependents = np.flatnonzero(governors >= 0)
    if tree:
        kept = [spans_of(text).index(word) for word in tree.words]
        for place in np.ndindex(*weights.shape[:2]):
            guessed = np.array(spanning_tree(by_words(weights[place], members, kept), root))
            right = guessed[dependents] == governors[dependents]
            # A guess may have the link the other way round.
            turned = guessed[governors[dependents]] == dependents
            found[(0, *place)], found[(1, *place)] = right.sum(), (right | turned).sum()
    return TreeScores(
        layers=maps.layers,
        heads=maps.heads if by_head else (),
        texts=int(tree is not None),
        skipped_texts=int(tree is None),
        words=len(dependents),
        directed=found[0],
        undirected=found[1],
        previous=int((governors[dependents] == dependents - 1).sum()),
        following=int((governors[dependents] == dependents + 1).sum()),
        provenance=maps.provenance,
    )


def spans_of(text: RelationText) -> list[Span]:
    """Returns the words of a text."""
    return [Span(*word) for word in text.words or ()]


def piece_words(tokens: Sequence[Token], words: Sequence[Span]) -> npt.NDArray[np.int64]:
    """Returns the word of each piece, -1 for special tokens and other pieces: a piece belongs to the word that holds its first
    character, as in ScoreRelations."""
    members = np.full(len(tokens), -1, np.int64)
    for place, token in enumerate(tokens):
        if not token.special:
            holding = (
                number
                for number, word in enumerate(words)
                if word.segment == token.segment and word.start <= token.start < word.end
            )
            members[place] = next(holding, -1)
    return members


def by_words(weights: Weights, members: npt.NDArray[np.int64], kept: Sequence[int]) -> Weights:
    """Returns a map by words [W, W] from one by pieces [L, L] (Clark et al. 2019, section 4.1).

    Attention to a word is the sum over its pieces, attention from it their mean.
    """
    belongs = (members[:, None] == np.array(kept)).astype(np.float64)
    return np.asarray((belongs / belongs.sum(axis=0)).T @ weights @ belongs)


def gold_tree(text: RelationText, with_pieces: npt.NDArray[np.int64]) -> Tree | None:
    """Returns the tree that a text's pairs make, whose sources are governors.

    Returns None if they make none, or one of a single word.
    """
    governors: dict[int, int] = {}
    for _, source, target in text.pairs:
        if target in governors:
            return None
        governors[target] = source
    words = [word for word in range(len(spans_of(text))) if word in with_pieces]
    roots = [word for word in words if word not in governors and word in governors.values()]
    if len(roots) != 1:
        return None
    reached = {roots[0]}
    while more := {word for word in words if word not in reached and governors.get(word) in reached}:
        reached |= more
    kept = sorted(reached)
    if len(kept) < 2 or len(reached) < len([word for word in words if word in governors]) + 1:
        return None
    places = {word: place for place, word in enumerate(kept)}
    spans = spans_of(text)
    return Tree(tuple(spans[word] for word in kept), tuple(places.get(governors.get(word, -1), -1) for word in kept))


def spanning_tree(weights: Weights, root: int) -> list[int]:
    """Returns the governor of each word, -1 for the root, in the tree from the root with the largest sum of weights.

    weights: [W, W], of each word's attention to its governor. Chu-Liu and Edmonds' algorithm, from networkx.
    """
    try:
        import networkx  # of the extra "trees"
    except ImportError as error:
        raise ImportError("score_trees() needs networkx: pip install networkx") from error
    count = len(weights)
    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_weighted_edges_from(
        (governor, word, float(weights[word, governor]))
        for word in range(count)
        for governor in range(count)
        if word not in (governor, root)
    )
    found = [-1] * count
    for governor, word in networkx.maximum_spanning_arborescence(graph).edges:
        found[word] = governor
    return found


def checked_texts(texts: RelationText | Iterable[RelationText]) -> list[RelationText]:
    """Returns the texts. Raises InvalidArgument unless there are some, and one of them has pairs."""
    asked = [texts] if isinstance(texts, RelationText) else [*validation.many("texts", texts, "RelationTexts")]
    for index, text in enumerate(asked):
        if not isinstance(text, RelationText):
            raise invalid_argument(f"texts[{index}]", f"must be a RelationText, not {type(text).__name__}")
    found = cast("list[RelationText]", asked)
    if not any(text.pairs for text in found):
        raise invalid_argument("texts", "have no pairs; read dependencies with read_conllu")
    return found


def score_trees(
    client: Client,
    texts: RelationText | Iterable[RelationText],
    *,
    model: str | Model | None = None,
    layers: Numbers | None = None,
    heads: Numbers | None = None,
    by_head: bool = False,
    interventions: Interventions = (),
    reference_texts: str | Iterable[str] = (),
    on_progress: OnTexts | None = None,
    on_rejected: OnRejected | None = None,
    timeout: float | None = None,
) -> TreeScores:
    """Scores the dependency trees that maps make, beside trees that branch to one side.

    The tree of a map is the one over a text's words, from its real root, in which words attend most to their governors
    (Raganato and Tiedemann 2018). The pairs of each text are its dependencies, from the governor to the word
    (`read_conllu`); a text whose pairs are no tree is counted as skipped.

    A layer has one tree, of the mean over its `heads`; with `by_head`, each head has one. The whole maps travel to the
    client, layers * heads * pieces * pieces * 4 bytes a text; a tree of 20 words takes some 30 ms. Needs the extra "trees".
    `on_progress` and `on_rejected` are as in `score_relations`.
    """
    asked = checked_texts(texts)
    streamed = client.extract_attention(
        [text.text for text in asked],
        model=model,
        layers=layers,
        heads=heads,
        interventions=interventions,
        reference_texts=reference_texts,
        on_rejected=on_rejected,
        timeout=timeout,
    )
    whole: TreeScores | None = None
    for maps in answers_of(streamed, len(asked), on_progress):
        scores = score_tree(asked[maps.input_index], maps, by_head=by_head)
        whole = scores if whole is None else TreeScores.merge([whole, scores])
    if whole is None:
        raise every_text_rejected()
    return whole
