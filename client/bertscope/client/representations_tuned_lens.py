# Generated from bertscope/questions/representations/tuned_lens_calls.py. Do not edit: change that file, and run `make client`.
# Generated from tuned_lens_uniform.py by `make client`. Do not edit: change that file, or the contract.
"""Makes the calls for tuned lenses: `train_lens`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import SupportsIndex

from bertscope.client.connection import Connection
from bertscope.client.streams import last
from bertscope.questions.representations.tuned_lens import TrainLensProgress, TunedLens, TunedLensAssembler, with_lens_texts
from bertscope.v1 import representation_tuned_lens_pb2
from bertscope.values.all_interventions import Interventions
from bertscope.values.choices import LensNormalisation
from bertscope.values.messages import Numbers
from bertscope.values.models import Model
from bertscope.values.requests import request_of
from bertscope.values.validation import TextOrPair


class TunedLensCalls(Connection):
    """The methods of `Client` that train tuned lenses."""

    def train_lens(
        self,
        texts: TextOrPair | Iterable[TextOrPair],
        *,
        dev: TextOrPair | Iterable[TextOrPair] = (),
        model: str | Model | None = None,
        layers: Numbers | None = None,
        mask_rate: float | None = None,
        normalisation: LensNormalisation | None = None,
        learning_rate: float | None = None,
        max_epochs: SupportsIndex | None = None,
        patience: SupportsIndex | None = None,
        seed: SupportsIndex = 0,
        truncate: bool = False,
        memory_bytes: SupportsIndex | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        on_progress: Callable[[TrainLensProgress], object] | None = None,
        timeout: float | None = None,
    ) -> TunedLens:
        """Trains a tuned lens on the server (Belrose et al. 2023): an affine map for each layer. With it the masked-LM head
        predicts from the layer's states what it predicts from the last. The result goes to `read_layers` as `lens`.

        Training minimises KL(last || this) over all pieces but special tokens.

        All texts go in one call, of no more bytes than the server takes (16 MiB). Ctrl-C ends it.

        Arguments:
            texts: Texts or pairs to train on, which need no labels: at most 100,000 with 1,000,000 pieces.
            dev: Texts that decide when training ends, and that scores are of; empty splits a tenth of the training texts off,
                chosen by `seed`.
            model: The model's name or a `Model`; None means the server's default model.
            layers: Layers to train maps for: 0, the embeddings, to layers of the model less 1, none twice; None means all.
            mask_rate: The share of pieces that are replaced by masks before the model reads them, each chosen by chance: 0 to
                1; None means 0.15, as BERT was trained (Devlin et al. 2019, section 3.1). Without masks a lens learns to read
                states of words that the model sees, and is then used at masks.
            normalisation: What the head gets: a state after its map, or that after the last normalisation of the model too:
                "none" or "final".
            learning_rate: Adam's first learning rate, more than 0 and at most 1; None means 0.001. It is halved after each
                epoch that does not lower the loss on the dev texts.
            max_epochs: Most passes over the training texts, 1 to 1,000; None means 20.
            patience: Training of a map ends after so many epochs without a lower loss on the dev texts, 1 to 1,000; None means
                4.
            seed: Draws the masks, the order of pieces and the dev texts.
            truncate: True: cut texts that are longer than the model reads. False: such a text is an error.
            memory_bytes: Most memory that the call takes for states and maps, bytes, 1 to the server's limit; None means that
                limit. States beyond it are kept in a file.
            interventions: Changes of heads or states while the model runs.
            reference_texts: Texts that means, and strengths of additions, are taken over: 1 to 10,000, if interventions need
                them.
            on_progress: Called with what is done so far; an exception in it ends the call.
            timeout: Seconds for the call; None means no limit.
        """
        request = with_lens_texts(
            request_of(
                representation_tuned_lens_pb2.TrainLensRequest,
                model=model,
                layers=layers,
                mask_rate=mask_rate,
                normalisation=normalisation,
                learning_rate=learning_rate,
                max_epochs=max_epochs,
                patience=patience,
                seed=seed,
                truncate=truncate,
                memory_bytes=memory_bytes,
                interventions=interventions,
                reference_texts=reference_texts,
            ),
            texts,
            dev=dev,
        )
        messages = self._stream(request, representation_tuned_lens_pb2.TrainLensResponse, timeout)
        return last(messages, TunedLensAssembler().add, on_progress, TunedLens, "training without a lens")
