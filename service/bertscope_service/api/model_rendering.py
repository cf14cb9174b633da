"""Rendering of models: bertscope.v1.Model and the progress of a load."""

from __future__ import annotations

from bertscope.v1 import common_pb2, compression_pb2, model_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from bertscope_service.api.enums import numbers
from bertscope_service.api.pages import cut_page
from bertscope_service.api.provenance import PRECISIONS, RUNTIMES
from bertscope_service.checkpoints.sources import Progress, Stage
from bertscope_service.checkpoints.steps import Applied
from bertscope_service.models.hosted import HostedModel, ModelState
from bertscope_service.models.runtime_choice import RuntimeChoice

STATES = numbers(ModelState, model_pb2.Model.State, "STATE_")
STAGES = numbers(Stage, model_pb2.LoadProgress.Stage, "STAGE_")


def render_page(entries: list[HostedModel], size: int, after: str) -> model_pb2.ListModelsResponse:
    """Renders the models after the one named `after`. Raises InvalidArgument if that one is gone."""
    page, token = cut_page([entry.spec.name for entry in entries], size, after)
    return model_pb2.ListModelsResponse(models=map(render_model, entries[page]), next_page_token=token)


def render_model(entry: HostedModel) -> model_pb2.Model:
    spec, loaded = entry.spec, entry.loaded
    model = model_pb2.Model(name=spec.name, source=spec.source, state=STATES[entry.state])
    if loaded is None:
        return model
    shape, has, tokenizer = loaded.encoder.shape, loaded.encoder.capabilities, loaded.tokenizer
    found = {
        model_pb2.CAPABILITY_ATTENTION: has.observable,
        model_pb2.CAPABILITY_CLOZE: has.masked_lm and tokenizer.mask_id is not None,
        model_pb2.CAPABILITY_INTERVENTIONS: has.observable,
        model_pb2.CAPABILITY_CLASSIFICATION: has.classification,
        model_pb2.CAPABILITY_RANKING: has.differentiable,
        model_pb2.CAPABILITY_PRUNING: has.prunable,
        model_pb2.CAPABILITY_NEXT_SENTENCE: has.next_sentence,
        model_pb2.CAPABILITY_HIDDEN_STATES: has.hidden_states and not has.drops_tokens,
        model_pb2.CAPABILITY_TOKEN_CLASSIFICATION: has.token_classification and not has.drops_tokens,
        model_pb2.CAPABILITY_MULTI_LABEL: has.multi_label,
        model_pb2.CAPABILITY_REGRESSION: has.regression,
        model_pb2.CAPABILITY_LAST_STATES: has.last_states,
        model_pb2.CAPABILITY_QUESTION_ANSWERING: has.question_answering and not has.drops_tokens,
    }
    capabilities = [capability for capability, there in found.items() if there]
    ready_time = Timestamp()
    ready_time.FromMilliseconds(int(entry.ready_time * 1000))
    model.MergeFrom(
        model_pb2.Model(
            architecture=shape.architecture,
            runtime=RUNTIMES[loaded.encoder.runtime],
            device=str(loaded.encoder.device),
            precision=PRECISIONS[loaded.encoder.precision],
            layers=shape.layers,
            heads=shape.heads,
            hidden_size=shape.hidden_size,
            vocabulary_size=shape.vocabulary_size,
            max_tokens=tokenizer.max_tokens,
            parameters=shape.parameters,
            weight_bytes=loaded.weight_bytes,
            capabilities=capabilities,
            weights_digest=loaded.weights_digest,
            mask_token=tokenizer.mask_token or "",
            ready_time=ready_time,
            labels=shape.label_names,
            pruned_heads=[common_pb2.LayerHeads(layer=layer, heads=heads) for layer, heads in sorted(shape.pruned.items())],
            compression=map(render_applied, loaded.steps),
            revision=loaded.source.revision if loaded.source else "",
            runtime_choice=None if loaded.choice is None else render_choice(loaded.choice),
            runs_texts_alone=has.runs_alone,
        )
    )
    return model


def render_choice(choice: RuntimeChoice) -> model_pb2.RuntimeChoice:
    message = model_pb2.RuntimeChoice(
        preferred=RUNTIMES[choice.preferred],
        threshold=choice.threshold,
        times=[
            model_pb2.RuntimeTimes(
                runtime=RUNTIMES[one.runtime], text_seconds=one.text_seconds, batch_seconds=one.batch_seconds
            )
            for one in choice.times
        ],
        speedup=choice.speedup,
        low=choice.low,
        high=choice.high,
        rounds=choice.rounds,
        remembered=choice.remembered,
        reason=choice.reason,
    )
    if choice.times:
        message.measured_time.FromMilliseconds(int(choice.measured_time * 1000))
    return message


def render_applied(step: Applied) -> compression_pb2.AppliedStep:
    return compression_pb2.AppliedStep(step=step.step, description=step.description, numbers=step.numbers)


def render_progress(progress: Progress) -> model_pb2.LoadModelResponse:
    return model_pb2.LoadModelResponse(
        progress=model_pb2.LoadProgress(
            stage=STAGES[progress.stage],
            done_bytes=progress.done_bytes,
            total_bytes=progress.total_bytes,
            detail=progress.detail,
        )
    )
