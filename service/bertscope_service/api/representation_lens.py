"""ReadLayers of the RepresentationService: the masked-LM head at every layer."""

from __future__ import annotations

from collections.abc import Sequence

from bertscope.v1 import representation_lens_pb2 as lens_pb2

from bertscope_service.analyses.lens import LensInput, LensPlan, LensQuery, LensText, at_most_zero
from bertscope_service.analyses.observers.lens import LensScores, Translators
from bertscope_service.api.checks import check_numbers, check_top_k, read_text
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_cloze, require_states
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.api.tensors import Expected, parse_tensor
from bertscope_service.api.tokens import render_piece
from bertscope_service.checkpoints.entry_names import entry_names
from bertscope_service.checkpoints.tokenizer import TextTokenizer
from bertscope_service.encoders.decomposition import Part, decomposition_of
from bertscope_service.encoders.torch.architectures import PRE_NORM
from bertscope_service.errors import FailedPrecondition, InvalidArgument, Unsupported
from bertscope_service.models.loaded import LoadedModel

NORMALISES: dict[int, bool | None] = {
    lens_pb2.LENS_NORMALISATION_UNSPECIFIED: None,
    lens_pb2.LENS_NORMALISATION_NONE: False,
    lens_pb2.LENS_NORMALISATION_FINAL: True,
}
TRANSLATOR = Expected(
    "TRANSLATOR_MISMATCH",
    "TRANSLATOR_NOT_FINITE",
    "states of this model",
    "use the model that the lens was trained on",
    "train the lens again, and keep it in float32",
)


def plan_lens(request: lens_pb2.ReadLayersRequest, model: LoadedModel, limits: RequestLimits) -> LensPlan:
    """Plans the answer. Raises InvalidArgument, Unsupported for a model without a masked-LM head, or whose states can't be
    read, and FailedPrecondition for a model with other weights than the translators were trained on."""
    require_cloze(model)
    require_states(model)
    shape = model.encoder.shape
    layers = check_numbers(request.layers, "layers", "state", shape.layers + 1, model.name)
    query = LensQuery(
        tuple(read_lens_input(given, f"inputs[{index}]") for index, given in enumerate(request.inputs)),
        layers,
        check_top_k(request, shape.vocabulary_size),
        tuple(request.candidates),
        request.all_pieces,
        normalises(request.normalisation, model),
        request.truncate,
        check_translators(request, layers, model),
    )
    return LensPlan(query, model.tokenizer)


def read_lens_input(given: lens_pb2.LensInput, field: str) -> LensInput:
    """Returns a text or pair and the parts of it to read. Raises InvalidArgument."""
    texts = read_text(given)
    spans = tuple(check_span(span, f"{field}.spans[{index}]", texts) for index, span in enumerate(given.spans))
    check_apart(spans, f"{field}.spans")
    return LensInput(*texts, spans)


def check_translators(request: lens_pb2.ReadLayersRequest, layers: Sequence[int], model: LoadedModel) -> Translators | None:
    """Checks that maps are of different layers, one for each that is read but the last, fit the model's states, and are finite.
    Returns them, None if there are none. Raises InvalidArgument, and FailedPrecondition for other weights."""
    if not request.translators:
        return None
    if request.weights_digest and request.weights_digest != model.weights_digest:
        message = (
            f"{model.name} has other weights than the model that the lens was trained on, so its states mean something else; "
            "load that model, or leave weights_digest out to use the lens all the same"
        )
        raise FailedPrecondition(message, "OTHER_WEIGHTS")
    shape = model.encoder.shape
    check_numbers([one.layer for one in request.translators], "translators", "layer", shape.layers, model.name)
    given = {one.layer: index for index, one in enumerate(request.translators)}
    read = sorted({*layers} - {shape.layers})
    for field, wrong, what in (
        ("layers", [layer for layer in read if layer not in given], "has no map; read the layers that the lens has"),
        ("translators", [layer for layer in given if layer not in read], "is not read; send the maps of the layers that are"),
    ):
        if wrong:
            raise InvalidArgument(field, f"layer {wrong[0]} {what}", "TRANSLATOR_MISMATCH")
    size = (shape.hidden_size + 1, shape.hidden_size)
    places = ((layer, given[layer]) for layer in read)
    return Translators(
        {
            layer: parse_tensor(request.translators[index].affine, f"translators[{index}].affine", size, TRANSLATOR)
            for layer, index in places
        }
    )


def normalises(number: int, model: LoadedModel) -> bool:
    """Returns whether states before the last get the model's last normalisation. Raises Unsupported for a model without one."""
    asked = NORMALISES[number]
    if asked is None:
        asked = model.encoder.shape.architecture in PRE_NORM
    decomposition = decomposition_of(model.encoder)
    why = None
    if asked:
        why = "its layers can't be taken apart" if decomposition is None else decomposition.refusal(Part.LAST)
    if why is not None:
        message = f"{model.name} has no last normalisation to apply: {why}"
        raise Unsupported(message, "NO_LAST_NORMALISATION", model=model.name)
    return asked


def render_lens(plan: LensPlan, results: Sequence[LensScores], model: LoadedModel) -> lens_pb2.ReadLayersResponse:
    query = plan.query
    response = lens_pb2.ReadLayersResponse(
        layers=query.layers,
        normalisation=lens_pb2.LENS_NORMALISATION_FINAL if query.normalise else lens_pb2.LENS_NORMALISATION_NONE,
        provenance=render_provenance(model),
    )
    for text, scores in zip(plan.texts, plan.answer(results), strict=True):
        rendered = response.results.add(tokens=len(text.tokenized), truncated_tokens=text.tokenized.truncated)
        for index in range(len(text.positions)):
            _render_position(rendered.positions.add(), text, index, scores, plan.tokenizer)
    return response


def _render_position(
    rendered: lens_pb2.LensPosition, text: LensText, index: int, scores: LensScores, tokenizer: TextTokenizer
) -> None:
    place = text.positions[index]
    piece = text.pieces[place]
    rendered.token_index, rendered.mask = place, piece.id == tokenizer.mask_id
    rendered.token.CopyFrom(render_piece(piece))
    for word in text.candidates[index] if text.candidates else ():
        rendered.candidates.add(token=word.text, id=word.pieces[0])
    columns = zip(
        scores.top_ids[index].tolist(),
        map(at_most_zero, scores.top_logs[index]),
        map(at_most_zero, scores.asked_logs[index]),
        scores.asked_ranks[index].tolist(),
        scores.entropies[index].tolist(),
        scores.divergences[index].tolist(),
        strict=True,
    )
    for ids, logs, asked, ranks, entropy, divergence in columns:
        layer = rendered.layers.add(entropy=entropy, divergence=divergence)
        for token, name, log in zip(ids, entry_names(tokenizer, ids), logs, strict=True):
            layer.top.add(entry=lens_pb2.VocabularyEntry(token=name, id=token), log_probability=log)
        found = [lens_pb2.LensScore(log_probability=log, rank=rank) for log, rank in zip(asked, ranks, strict=True)]
        layer.candidates.extend(found[1:])
        if not rendered.mask:
            layer.own.CopyFrom(found[0])
