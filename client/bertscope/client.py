"""The client for threads and scripts. `AsyncClient` has the same methods; they share all but the waiting."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from typing import SupportsIndex

from bertscope import _events, _health, _replies, _requests
from bertscope._ablation_calls import AblationCalls
from bertscope._benchmark_calls import BenchmarkCalls
from bertscope._channel import deadline
from bertscope._compression_calls import CompressionCalls
from bertscope._requests import Inputs, Interventions, Numbers
from bertscope._resumption import Extraction
from bertscope.classification import ClassifiedTexts
from bertscope.errors import BertscopeError, NotFound, Unavailable
from bertscope.results import AttentionMaps, FilledTexts, Health, LoadProgress, Model, Models
from bertscope.v1 import attention_pb2, model_pb2


class Client(AblationCalls, CompressionCalls, BenchmarkCalls):
    """A connection to a bertscope server; may be used by many threads at once.

    A method is its RPC in snake case. `model` is "models/x", "x" or a `Model`; None means the server's default model.

    `timeout` is in seconds. A call that answers once takes the client's timeout (60 unless set) if it has none of its
    own; `list_models` counts it for each page. A call that streams (`extract_attention`, `load_model`, `sweep_heads`,
    `compress_model`, `benchmark_models`, `benchmark_studies`) or may work for long (`rank_heads`, `prune_heads`) has no
    limit unless it is given one. `math.inf` means no limit anywhere.

    `interventions` change what heads contribute (`zero`, `uniform`, `mean`, `scale`); `reference_texts` are what `mean`
    takes the mean over, required with it and refused without.

    What only reads is tried again, up to four times within a second or so, while the server cannot be reached; a
    benchmark, which takes a device for itself, is not.
    Every method raises a `BertscopeError`; InvalidArgument also for what cannot be sent, before anything is.

    >>> with bertscope.Client("127.0.0.1:50051") as client:  # doctest: +SKIP
    ...     client.fill_mask("Paris is the capital of [MASK].")[0].masks[0].predictions[0].token
    """

    def fill_mask(
        self,
        texts: str | Iterable[str],
        *,
        model: str | Model | None = None,
        top_k: SupportsIndex | None = None,
        candidates: str | Iterable[str] | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> FilledTexts:
        """Fills the masks of texts: the likeliest pieces of the vocabulary (top_k, 5 unless set), or given candidates.

        Each text has at least one "[MASK]". Takes 1 to the server's limit of texts (256 unless set otherwise there) and
        up to 1000 candidates; top_k and candidates exclude each other. `truncate` cuts texts that the model cannot
        read whole; without it they are an error. One answer for each text, in order.
        """
        request = _requests.fill_mask(
            texts,
            model=model,
            top_k=top_k,
            candidates=candidates,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return _replies.filled_texts(request, self._call(self._cloze.FillMask, request, timeout))

    def extract_attention(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        layers: Numbers | None = None,
        heads: Numbers | None = None,
        words: bool = False,
        dtype: str = "float32",
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> Generator[AttentionMaps, None, None]:
        """Streams the attention maps of texts, each as soon as all of its bytes are here.

        A tuple of two strings is one pair of texts, a list of strings is many texts. `layers` and `heads` choose and
        order the slices, all unless set; `words` joins pieces to words; `dtype` is "float32" or "float16" (half the
        bytes). Maps are [layers, heads, L, L], one array for each text and no more memory than that.

        The call begins when the first maps are asked for. Closing the generator cancels it. If the server goes meanwhile, the
        texts that are missing are asked for again, of another one if there is one.
        """
        request = _requests.extract_attention(
            inputs,
            model=model,
            layers=layers,
            heads=heads,
            words=words,
            dtype=dtype,
            interventions=interventions,
            reference_texts=reference_texts,
            truncate=truncate,
        )
        return self._extract_attention(request, timeout)

    def classify(
        self,
        inputs: Inputs,
        *,
        model: str | Model | None = None,
        interventions: Interventions = (),
        reference_texts: str | Iterable[str] = (),
        truncate: bool = False,
        timeout: float | None = None,
    ) -> ClassifiedTexts:
        """Gives the probability of every label of a fine-tuned model for texts or pairs of texts.

        A tuple of two strings is one pair, a list of strings is many texts, 1 to the server's limit (256 unless set
        otherwise there). Raises Unimplemented for a model without labels (see `Model.labels`).
        """
        request = _requests.classify(
            inputs, model=model, interventions=interventions, reference_texts=reference_texts, truncate=truncate
        )
        return _replies.classified_texts(request, self._call(self._classification.Classify, request, timeout))

    def list_models(self, *, timeout: float | None = None) -> Models:
        """The loaded models, the default model first; all pages."""
        models: list[Model] = []
        page_token = ""
        while True:
            page = self._call(self._models.ListModels, _requests.list_models(page_token), timeout)
            models += _replies.models(page.models)
            page_token = page.next_page_token
            if not page_token:
                return Models(models)

    def get_model(self, model: str | Model | None = None, *, timeout: float | None = None) -> Model:
        """Describes one model. Raises NotFound if it is not loaded."""
        return _replies.model(self._call(self._models.GetModel, _requests.get_model(model), timeout).model)

    def load_model(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        runtime: str | None = None,
        replace: bool = False,
        on_progress: Callable[[LoadProgress], object] | None = None,
        timeout: float | None = None,
    ) -> Model:
        """Loads a model and waits until it is ready; `on_progress` hears how far it is.

        `model` is the id that it gets, the last part of the source unless set. `source` is a hub id, or a folder or .onnx
        file on the server; `device` "auto", "cpu" or "cuda:N"; `precision` "fp32", "bf16" or "fp16"; `revision` a branch,
        tag or commit of a hub id; `runtime` "torch", "onnx" or "auto", the one that a short measurement finds
        faster. With `replace`, a model that has the id answers until the new one is ready and takes its place; calls that run
        then finish on the old weights. An exception in `on_progress`, or Ctrl-C, abandons the load.
        Raises AlreadyExists for an id in use, unless `replace` is set, and FailedPrecondition for a source that cannot be
        loaded; the model that was to be replaced then serves on.
        """
        request = _requests.load_model(
            model, source=source, device=device, precision=precision, revision=revision, runtime=runtime, replace=replace
        )
        messages = self._stream(self._models.LoadModel, request, timeout)
        return _replies.loaded(_events.last(messages, _replies.load_event, LoadProgress, on_progress))

    def load_model_events(
        self,
        model: str | None = None,
        *,
        source: str,
        device: str | None = None,
        precision: str | None = None,
        revision: str | None = None,
        runtime: str | None = None,
        replace: bool = False,
        timeout: float | None = None,
    ) -> Generator[LoadProgress | Model, None, None]:
        """`load_model` as a stream: progress any number of times, then the model. Closing the generator abandons it."""
        request = _requests.load_model(
            model, source=source, device=device, precision=precision, revision=revision, runtime=runtime, replace=replace
        )
        return self._load_model_events(request, timeout)

    def unload_model(self, model: str | Model, *, timeout: float | None = None) -> None:
        """Unloads a model; requests that already run on it finish. Raises NotFound if it is not loaded."""
        self._call(self._models.UnloadModel, _requests.unload_model(model), timeout)

    def health(self, *, timeout: float | None = None) -> Health:
        """What the server says of itself and of each of its services, now."""
        services = {service: self._check(service, timeout) for service in ("", *_health.SERVICES)}
        return Health(status=services.pop(""), services=services)

    def wait_until_serving(self, timeout: float | None = None) -> None:
        """Waits until the server is there and says that it serves. Raises DeadlineExceeded after `timeout` seconds."""
        seconds = deadline(timeout, self._timeout)
        with closing(self._stream(self._health_watch, _health.request(""), seconds, wait_for_ready=True)) as statuses:
            if not any(_health.status(status) == "SERVING" for status in statuses):
                raise Unavailable("the server stopped telling its health before it was serving")

    def _extract_attention(
        self, request: attention_pb2.ExtractAttentionRequest, timeout: float | None
    ) -> Generator[AttentionMaps, None, None]:
        extraction = Extraction(request, deadline(timeout, None))
        while not extraction.complete:
            messages = self._stream(self._attention.ExtractAttention, extraction.request, extraction.timeout)
            try:
                with closing(messages):
                    for message in messages:
                        maps = extraction.add(message)
                        if maps is not None:
                            yield maps
                extraction.end()
            except BertscopeError as error:
                extraction.resume(error)

    def _load_model_events(
        self, request: model_pb2.LoadModelRequest, timeout: float | None
    ) -> Generator[LoadProgress | Model, None, None]:
        with closing(self._stream(self._models.LoadModel, request, timeout)) as messages:
            for message in messages:
                event = _replies.load_event(message)
                if event is not None:
                    yield event

    def _check(self, service: str, timeout: float | None) -> str:
        try:
            return _health.status(self._call(self._health_check, _health.request(service), timeout))
        except NotFound:
            return "SERVICE_UNKNOWN"
