"""The answers of Inspect: predictions, distances and maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from bertscope.values.display import data_frame, record, table_html
from bertscope.values.mask_predictions import FilledMask
from bertscope.values.results import Provenance, Token

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["InspectedMaps", "Inspection", "InspectionDistances", "InspectionStart", "ViewedMaps"]

COLUMNS = [
    "mask", "start", "end", "order", "token", "probability", "rank", "untouched_probability", "untouched_rank"
]  # fmt: skip


@record
class ViewedMaps:
    """The form of the maps of one `MapView`."""

    heads: tuple[tuple[int, int], ...]
    """Layer and head of each map, in order."""
    shape: tuple[int, int, int]
    """Maps, rows and columns of cells."""
    cell_size: int
    """Pieces or words along one side of a cell; 1 in whole maps."""
    rows: tuple[int, int]
    """The rows that the cells cover, first and one past the last."""
    columns: tuple[int, int]
    """The columns that the cells cover, first and one past the last."""
    format: str
    """How weights travel: "uint8", "float16" or "float32"."""
    untouched: bool
    """True for maps of the untouched run."""


@record
class InspectionStart:
    """The first event of an inspection: what the model read, and what it predicts."""

    text: str
    """The text, or the first of a pair."""
    text_pair: str | None
    """The second text of a pair."""
    tokens: tuple[Token, ...]
    """The pieces that the model read, special tokens included; `Token.word` says which belong together."""
    words: tuple[Token, ...]
    """The words, special tokens included, if maps are by word; else empty."""
    truncated_tokens: int
    """Number of tokens of the text that were cut away."""
    masked_lm: bool
    """False if the model can't fill masks, and so predicts nothing."""
    masks: tuple[FilledMask, ...]
    """The masks. Each has the likeliest entries of the run and of the untouched one, and the candidates, likeliest first."""
    untouched_masks: tuple[FilledMask, ...]
    """The same masks and entries in the untouched run, likeliest there first; empty unless two runs are compared."""
    compared: bool
    """True if two runs are compared."""
    views: tuple[ViewedMaps, ...]
    """The form of the maps that follow."""
    layers: int
    """Layers of the model."""
    heads: int
    """Heads of each layer."""
    device_seconds: float
    """Time that the device worked on the batch of this text."""
    provenance: Provenance
    """Provenance of the numbers."""

    def to_pandas(self) -> pd.DataFrame:
        """Returns a row for each entry of each mask: mask (index in the text), start, end, order (from 1), token, probability,
        rank, untouched_probability, untouched_rank (None without a second run). Needs the extra "pandas"."""
        return data_frame([row for number in range(len(self.masks)) for row in self._rows(number)], COLUMNS)

    def _rows(self, number: int) -> list[tuple[Any, ...]]:
        mask = self.masks[number]
        before = {}
        if self.untouched_masks:
            before = {entry.piece_ids: entry for entry in self.untouched_masks[number].predictions}
        rows = []
        for order, entry in enumerate(mask.predictions, start=1):
            was = before.get(entry.piece_ids)
            scores = (None, None) if was is None else (was.probability, was.rank)
            rows.append((number, mask.start, mask.end, order, entry.token, entry.probability, entry.rank, *scores))
        return rows

    def _repr_html_(self) -> str | None:
        return table_html(self)


@record(eq=False)
class InspectionDistances:
    """How far the attention of each head is from that of the untouched run. Compared by identity."""

    moved: npt.NDArray[np.float32]
    """Share of attention that went elsewhere, 0 to 1, [layers, heads]: the total variation of rows, their mean."""
    divergence: npt.NDArray[np.float32] | None
    """Jensen-Shannon divergence of rows, their mean, nats, [layers, heads]; None unless requested."""


@record(eq=False)
class InspectedMaps:
    """The maps of one `MapView`. Compared by identity."""

    index: int
    """Index of the view among the call's `maps`."""
    view: ViewedMaps
    """Their form."""
    cells: npt.NDArray[Any]
    """[maps, rows, columns], as they travelled: uint8 (255 is weight 1), float16 or float32."""

    @property
    def weights(self) -> npt.NDArray[np.floating[Any]]:
        """The cells as weights 0 to 1, float32 if they travelled as uint8."""
        return self.cells.astype(np.float32) / np.float32(255) if self.cells.dtype == np.uint8 else self.cells

    def head(self, layer: int, head: int) -> npt.NDArray[np.floating[Any]]:
        """Returns the weights of one head, [rows, columns]. Raises KeyError for a head that the view does not have."""
        if (layer, head) not in self.view.heads:
            raise KeyError(f"layer {layer}, head {head} is not among the {len(self.view.heads)} heads of these maps")
        result: npt.NDArray[np.floating[Any]] = self.weights[self.view.heads.index((layer, head))]
        return result


@record(eq=False)
class Inspection:
    """The whole answer of `inspect`. Compared by identity."""

    start: InspectionStart
    """The tokens and the predictions."""
    distances: InspectionDistances | None
    """How far attention moved; None unless two runs are compared."""
    maps: tuple[InspectedMaps, ...]
    """The maps of each requested view, in order."""

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The pieces that the model read."""
        return self.start.tokens

    @property
    def words(self) -> tuple[Token, ...]:
        """The words, if maps are by word; else empty."""
        return self.start.words

    @property
    def masks(self) -> tuple[FilledMask, ...]:
        """The masks and what fills them."""
        return self.start.masks

    @property
    def untouched_masks(self) -> tuple[FilledMask, ...]:
        """The same in the untouched run; empty unless two runs are compared."""
        return self.start.untouched_masks

    @property
    def provenance(self) -> Provenance:
        """Provenance of the numbers."""
        return self.start.provenance

    def to_pandas(self) -> pd.DataFrame:
        """Returns the predictions as a table; see `InspectionStart.to_pandas`."""
        return self.start.to_pandas()

    def _repr_html_(self) -> str | None:
        return table_html(self)
