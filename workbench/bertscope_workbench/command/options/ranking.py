"""Defines how rank and prune find what a head is worth: by gradients, or by ablation."""

from dataclasses import dataclass
from typing import Any, Literal

from bertscope import Client, HeadRanking, Metric, SweepTable
from bertscope.errors import InvalidArgument, Unimplemented

from bertscope_workbench.command.groups import flag, option
from bertscope_workbench.command.options.objectives import ObjectiveOptions
from bertscope_workbench.command.views.output import Failure, UsageError
from bertscope_workbench.command.views.progress import waiting, watch


@dataclass(frozen=True)
class RankingOptions:
    """The way to rank."""

    ablation: bool = flag("--ablation", "Rank by the score without each head, which any FILE has, not by the loss's gradient.")
    metric: Metric | None = option(
        "--metric", "With --ablation: the score to rank by; the first one unless set.", dashed=True, needs="ablation"
    )

    def least(self, ranking: HeadRanking | SweepTable, share: float) -> dict[int, tuple[int, ...]]:
        """Returns the least important heads of a ranking, by layer."""
        return (
            ranking.least(share=share) if isinstance(ranking, HeadRanking) else ranking.least(share=share, metric=self.metric)
        )

    def rank(
        self, client: Client, objective: ObjectiveOptions, scope: Literal["heads", "layers"] = "heads", **arguments: Any
    ) -> HeadRanking | SweepTable:
        """Ranks by a file. Raises Failure, which names --ablation, where there is no gradient, and UsageError for a metric
        that the file doesn't have."""
        if self.ablation:
            with client.sweep_heads(objective.objective(), scope=scope, seed=objective.seed, **arguments) as running:
                if self.metric is not None and self.metric not in running.start.baseline:
                    found = ", ".join(running.start.baseline)
                    raise UsageError(f"--metric {self.metric.replace('_', '-')}: this file measures {found}")
                return watch(running)
        try:
            with waiting("ranking"):
                return client.rank_heads(objective.objective(), **arguments)
        except (InvalidArgument, Unimplemented) as error:
            if error.reason == "OBJECTIVE_WITHOUT_LOSS":
                raise Failure(f"{objective.given[0]} has no loss to differentiate: add --ablation") from error
            if error.reason == "NO_GRADIENTS":
                raise Failure(f"{error}; or add --ablation, which needs none") from error
            raise
