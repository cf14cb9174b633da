"""The AttributionService."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from itertools import accumulate

from bertscope.v1 import attribution_pb2, attribution_pb2_grpc, common_pb2

from bertscope_service.analyses.observers.targets import Scale
from bertscope_service.analyses.site_attribution import SiteQuery, SiteWork
from bertscope_service.analyses.state_units import Unit
from bertscope_service.analyses.text_units import Absent
from bertscope_service.analyses.word_attribution import AttributedInput, AttributionPlan, Method, Settings, TextAttribution
from bertscope_service.api import field_checks
from bertscope_service.api.answer import INLINE_ROWS, Backend, Call, Context
from bertscope_service.api.checks import check_numbers, read_text
from bertscope_service.api.enums import members, numbers
from bertscope_service.api.limits import RequestLimits
from bertscope_service.api.matrices import render_matrix
from bertscope_service.api.provenance import render_provenance
from bertscope_service.api.requirements import require_frozen, require_gradients, require_site
from bertscope_service.api.site_positions import PositionReader
from bertscope_service.api.site_vectors import read_codes
from bertscope_service.api.sites import SITES
from bertscope_service.api.spans import check_apart, check_span
from bertscope_service.api.targets import parse_target, target_reader
from bertscope_service.api.tokens import render_token
from bertscope_service.encoders.edits import Edits
from bertscope_service.encoders.sites import Site
from bertscope_service.engine.rows import Row
from bertscope_service.errors import InvalidArgument
from bertscope_service.models.loaded import LoadedModel

Request = attribution_pb2.AttributeWordsRequest

METHODS: dict[int, Method] = {
    attribution_pb2.ATTRIBUTION_METHOD_UNSPECIFIED: Method.SHAPLEY,
    **members(Method, attribution_pb2.AttributionMethod, "ATTRIBUTION_METHOD_"),
}
METHOD_NUMBERS = numbers(Method, attribution_pb2.AttributionMethod, "ATTRIBUTION_METHOD_")
ABSENT_NUMBERS = numbers(Absent, attribution_pb2.AbsentText, "ABSENT_TEXT_")
ABSENT: dict[int, Absent] = {number: absent for absent, number in ABSENT_NUMBERS.items()}

OF_SITES = (Method.INTEGRATED_GRADIENTS, Method.GRADIENT)
"""Methods that divide a number among the units of a site."""


class AttributionServicer(attribution_pb2_grpc.AttributionServiceServicer):
    """Serves AttributionService: which words made a score."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def AttributeWords(self, request: Request, context: Context) -> attribution_pb2.AttributeWordsResponse:
        registry = self._backend.registry
        with registry.use(request.model) as model:
            call = Call.of(self._backend, model, context)
            plan, conditions = await call.read(request, plan_attribution)
            self._backend.reply_memory.hold(call.client, plan.reply_bytes)
            edits = await call.edits(conditions)
            if plan.settings.method.needs_gradients:
                model = await registry.with_gradients(model)
            if plan.settings.method is Method.FROZEN:
                require_frozen(model)
            if plan.settings.site is not None:
                require_site(model, plan.settings.site.site, plan.settings.site.layers)
            await run_texts(call, plan.texts, model, edits)
            return await call.compute(partial(render_attribution, plan, model))


async def run_texts(call: Call, texts: Sequence[TextAttribution], model: LoadedModel, edits: Edits | None) -> None:
    """Runs all rows of the texts, round by round, behind interactive ones. Rows are built when they may run soon."""
    runner, waiting = call.bulk(model.encoder), list(texts)
    while waiting:
        ends = list(accumulate(len(text.rows) for text in waiting))
        lengths = [len(text.units.ids) for text in waiting for _ in range(len(text.rows))]

        def row(number: int, waiting: Sequence[TextAttribution] = waiting, ends: Sequence[int] = ends) -> Row:
            which = bisect_right(ends, number)
            rows = waiting[which].rows
            return Row(model.encoder, *rows[number - ends[which] + len(rows)], edits)

        async with aclosing(runner.results(lengths, row)) as results:
            for text in waiting:
                found = [await anext(results) for _ in range(len(text.rows))]
                await call.compute(partial(text.advance, found), large=len(found) > INLINE_ROWS)
        waiting = [text for text in waiting if text.rows]


def plan_attribution(request: Request, model: LoadedModel, limits: RequestLimits) -> AttributionPlan:
    """Plans the answer. Raises InvalidArgument, and Unsupported for a model without a head that a target needs, or without
    gradients."""
    settings = parse_settings(request, model)
    inputs = [_read_input(given, f"inputs[{index}]", model, settings) for index, given in enumerate(request.inputs)]
    unit = Unit.PIECE if request.unit == attribution_pb2.ATTRIBUTION_UNIT_PIECE else Unit.WORD
    reader, tokens = target_reader(model), limits.tokens
    return AttributionPlan(inputs, unit, settings, model.tokenizer, reader, truncate=request.truncate, max_row_tokens=tokens)


def parse_settings(request: Request, model: LoadedModel) -> Settings:
    """Returns how numbers are divided. Raises InvalidArgument for settings that don't go together."""
    method = METHODS[request.method]
    if request.HasField("site"):
        method = _method_of_site(request)
    if method.needs_gradients:
        require_gradients(model)
    if request.interactions and method is not Method.SHAPLEY:
        message = "interactions come from exact Shapley values; let method be ATTRIBUTION_METHOD_SHAPLEY, or leave them out"
        raise InvalidArgument("interactions", message, "INTERACTIONS_NOT_EXACT")
    first, pairs = request.first_pair, request.pairs if request.HasField("pairs") else field_checks.ATTRIBUTE_WORDS_PAIRS
    steps, most = _read_steps(request)
    return Settings(
        method=method,
        absent=_read_absent(request, method, model),
        exact_units=request.exact_units if request.HasField("exact_units") else field_checks.ATTRIBUTE_WORDS_EXACT_UNITS,
        pairs=range(first, first + pairs),
        seed=request.seed,
        steps=steps,
        max_steps=most,
        tolerance=request.tolerance if request.HasField("tolerance") else field_checks.ATTRIBUTE_WORDS_TOLERANCE,
        interactions=request.interactions,
        site=_read_site(request.site, model) if request.HasField("site") else None,
    )


def _method_of_site(request: Request) -> Method:
    """Returns how a number is divided among the units of a site. Raises InvalidArgument for what goes with words alone."""
    if request.method not in (attribution_pb2.ATTRIBUTION_METHOD_UNSPECIFIED, *(METHOD_NUMBERS[one] for one in OF_SITES)):
        name = attribution_pb2.AttributionMethod.Name(request.method)
        message = f"method is {name}, and with site it may be ATTRIBUTION_METHOD_INTEGRATED_GRADIENTS or _GRADIENT"
        raise InvalidArgument("method", message, "SITE_WITHOUT_WORDS")
    given: dict[str, object] = {"absent": request.absent, "unit": request.unit, "interactions": request.interactions}
    given |= {f"inputs[{index}].spans": one.spans for index, one in enumerate(request.inputs)}
    for field, value in given.items():
        if value:
            message = f"{field} is about words, and with site the number is divided among the units of a site; leave it out"
            raise InvalidArgument(field, message, "SITE_WITHOUT_WORDS")
    return METHODS[request.method] if request.method else Method.INTEGRATED_GRADIENTS


def _read_site(message: attribution_pb2.AttributedSite, model: LoadedModel) -> SiteQuery:
    site, shape = SITES[message.site], model.encoder.shape
    layers = check_numbers(message.layers, "site.layers", "layer", shape.layers, model.name)
    where = PositionReader(model.tokenizer).where(message.positions, "site") if message.HasField("positions") else None
    if message.HasField("codes") != (site is Site.STATE):
        told = "site.codes are the units of SITE_STATE, and of no other site; set both or neither"
        raise InvalidArgument("site.codes", told, "CHANGE_UNUSABLE")
    codes = read_codes(message.codes, shape.hidden_size, "site.codes")[0] if site is Site.STATE else None
    if codes is not None and len(layers) > 1:
        raise InvalidArgument("site.layers", "site.layers must name the one layer that site.codes are of", "CHANGE_UNUSABLE")
    return SiteQuery(site, tuple(sorted(layers)), where, message.top or field_checks.ATTRIBUTED_SITE_TOP, codes)


def _read_steps(request: Request) -> tuple[int, int]:
    """Returns the steps to begin with, and the most."""
    most = request.max_steps if request.HasField("max_steps") else field_checks.ATTRIBUTE_WORDS_MAX_STEPS
    if not request.HasField("steps"):
        return min(field_checks.ATTRIBUTE_WORDS_STEPS, most), most
    if request.steps > most:
        message = f"max_steps is {most} and steps {request.steps}; let it be as many at least, or leave it out"
        raise InvalidArgument("max_steps", message, "MAX_STEPS_OUT_OF_RANGE")
    return request.steps, most


def _read_absent(request: Request, method: Method, model: LoadedModel) -> Absent:
    """Returns what absent words leave behind."""
    has_mask = model.tokenizer.mask_id is not None
    possible = [Absent.MASK] * has_mask + [Absent.ZERO if method.needs_gradients else Absent.DELETED]
    if method is Method.FROZEN:
        possible = [Absent.ZERO]
    if not request.absent:
        return possible[0]
    chosen = ABSENT[request.absent]
    if chosen not in possible:
        names = " or ".join(attribution_pb2.AbsentText.Name(ABSENT_NUMBERS[one]) for one in possible)
        why = f"with method {attribution_pb2.AttributionMethod.Name(METHOD_NUMBERS[method])}"
        if chosen is Absent.MASK and not has_mask:
            why = f"for {model.name}, which has no mask token"
        message = f"absent can't be {attribution_pb2.AbsentText.Name(request.absent)} {why}; use {names}"
        raise InvalidArgument("absent", message, "ABSENT_UNSUPPORTED")
    return chosen


def _read_input(given: attribution_pb2.AttributedText, field: str, model: LoadedModel, settings: Settings) -> AttributedInput:
    texts = read_text(given)
    spans = tuple(check_span(span, f"{field}.spans[{index}]", texts) for index, span in enumerate(given.spans))
    check_apart(spans, f"{field}.spans")
    target = parse_target(given.target, f"{field}.target", texts, model)
    if settings.method is Method.FROZEN and target.scale is not Scale.LOGIT:
        message = f"{field}.target.scale: frozen layers add up to logits alone; let it be TARGET_SCALE_LOGIT"
        raise InvalidArgument(f"{field}.target.scale", message, "SCALE_UNSUPPORTED")
    return AttributedInput(*texts, spans, target, field)


def render_attribution(plan: AttributionPlan, model: LoadedModel) -> attribution_pb2.AttributeWordsResponse:
    return attribution_pb2.AttributeWordsResponse(
        results=[_render_text(text, model) for text in plan.texts],
        method=METHOD_NUMBERS[plan.settings.method],
        absent=attribution_pb2.ABSENT_TEXT_UNSPECIFIED if plan.settings.site else ABSENT_NUMBERS[plan.settings.absent],
        provenance=render_provenance(model),
    )


def _render_text(text: TextAttribution, model: LoadedModel) -> attribution_pb2.WordAttribution:
    shares, tokenized = text.work.shares, text.units.tokenized
    difference = shares.value - shares.value_absent
    if isinstance(text.work, SiteWork):
        return _render_site(text, text.work, model)
    return attribution_pb2.WordAttribution(
        units=[_render_unit(token, text.prompt) for token in map(render_token, text.units.tokens)],
        values=shares.values.tolist(),
        value=shares.value,
        value_absent=shares.value_absent,
        rest=difference - float(shares.values.sum()),
        completeness_error=shares.completeness_error,
        evaluations=text.work.evaluations + text.first,
        steps=shares.steps,
        pairs=shares.pairs,
        sums=[] if shares.sums is None else shares.sums.tolist(),
        sums_of_squares=[] if shares.sums_of_squares is None else shares.sums_of_squares.tolist(),
        interactions=None if shares.interactions is None else render_matrix(shares.interactions),
        label=_label(text, model),
        tokens=len(tokenized),
        truncated_tokens=tokenized.truncated,
    )


def _label(text: TextAttribution, model: LoadedModel) -> str:
    return "" if text.label is None else model.encoder.shape.label_names[text.label]


def _render_site(text: TextAttribution, work: SiteWork, model: LoadedModel) -> attribution_pb2.WordAttribution:
    tokenized, shares = text.units.tokenized, work.shares
    top = [
        attribution_pb2.UnitAttribution(layer=one.layer, position=one.position, unit=one.unit, value=one.value)
        for one in work.top()
    ]
    return attribution_pb2.WordAttribution(
        value=shares.value,
        completeness_error=shares.completeness_error,
        evaluations=work.evaluations + text.first,
        steps=shares.steps,
        label=_label(text, model),
        tokens=len(tokenized),
        truncated_tokens=tokenized.truncated,
        site_units=top,
        layer_sums=work.layer_sums,
        layer_values_absent=[line.absent for line in work.lines],
    )


def _render_unit(token: common_pb2.Token, prompt: int) -> common_pb2.Token:
    """Moves a unit of the first text to where it is without a prompt of so many code points."""
    if not token.segment:
        token.start, token.end = token.start - prompt, token.end - prompt
    return token
