"""Checks of a model's capabilities."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import Message

from bertscope_service.analyses.label_distributions import labelling_of
from bertscope_service.analyses.objectives.answered import AnsweredQuery
from bertscope_service.analyses.objectives.build import ObjectiveQuery
from bertscope_service.analyses.objectives.divergence import DivergenceQuery
from bertscope_service.analyses.objectives.label_sets import LabelSetsQuery
from bertscope_service.analyses.objectives.labelled import LabelledQuery
from bertscope_service.analyses.objectives.rated import RatedQuery
from bertscope_service.analyses.objectives.similarity import SimilarityQuery
from bertscope_service.analyses.objectives.token_labels import TokenLabelsQuery
from bertscope_service.analyses.observers.state_quantities import StateQuantity, dimensions
from bertscope_service.checkpoints.declared_pooling import DeclaredPooling, UnusableDeclaration
from bertscope_service.encoders.base import ChangesSites
from bertscope_service.encoders.decomposition import Freezes, decomposition_of
from bertscope_service.encoders.sites import Site
from bertscope_service.errors import Unsupported
from bertscope_service.models.loaded import LoadedModel


def require_cloze(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't fill masks."""
    if not model.encoder.capabilities.masked_lm:
        message = f"{model.name} has no masked-LM head in its checkpoint, so it can't fill masks; load one that has"
        if model.encoder.shape.architecture.startswith("deberta"):
            message += ', or, if its weights hold lm_predictions, the head as published, set "legacy": false in its config.json'
        raise Unsupported(message, "NO_MASKED_LM_HEAD", model=model.name)
    if model.tokenizer.mask_id is None:
        raise Unsupported(f"{model.name} has no mask token, so it can't fill masks", "NO_MASK_TOKEN", model=model.name)


def require_next_sentence(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't tell whether one text follows another."""
    if not model.encoder.capabilities.next_sentence:
        message = (
            f"{model.name} has no next-sentence head, so it can't tell whether one text follows another; load a BERT or "
            "MobileBERT whose checkpoint holds cls.seq_relationship and the pooler that it was pre-trained with"
        )
        raise Unsupported(message, "NO_NEXT_SENTENCE_HEAD", model=model.name)


def require_labels(model: LoadedModel) -> None:
    """Raises Unsupported for a model that gives texts no labels: neither one of several, nor any number of them."""
    if not model.encoder.capabilities.multi_label:
        require_classification(model)


def require_classification(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't choose one of several labels."""
    capabilities = model.encoder.capabilities
    if not capabilities.classification:
        message = f"{model.name} has no classification head in its checkpoint, so it can't choose a label; load one that has"
        if capabilities.regression:
            message = f"{model.name} gives each text a value, not labels; call PredictValues, or load a model that classifies"
        if capabilities.multi_label:
            message = f"{model.name} lets any number of its labels hold, so it can't choose one; load a model that chooses one"
        raise Unsupported(message, "NO_CLASSIFICATION_HEAD", model=model.name)


def require_regression(model: LoadedModel) -> None:
    """Raises Unsupported for a model that gives no value."""
    capabilities = model.encoder.capabilities
    if not capabilities.regression:
        message = (
            f"{model.name} has no regression head in its checkpoint, so it can't give values; load a checkpoint whose "
            "architecture ends with ForSequenceClassification and that has one label"
        )
        if capabilities.classification or capabilities.multi_label:
            message = f"{model.name} gives each text labels, not a value; call Classify, or load a model with a regression head"
        raise Unsupported(message, "NO_REGRESSION_HEAD", model=model.name)


def require_token_classification(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't give words labels."""
    capabilities = model.encoder.capabilities
    if not capabilities.token_classification or capabilities.drops_tokens:
        message = (
            f"{model.name} has no token classification head in its checkpoint, or drops tokens, so it can't give words labels; "
            "load a checkpoint whose architecture ends with ForTokenClassification"
        )
        raise Unsupported(message, "NO_TOKEN_CLASSIFICATION_HEAD", model=model.name)


def require_question_answering(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't find answers."""
    capabilities = model.encoder.capabilities
    if not capabilities.question_answering or capabilities.drops_tokens:
        why = "drops tokens" if capabilities.question_answering else "has no question answering head"
        message = f"{model.name} {why}, so it can't find answers; load a checkpoint that has such a head"
        raise Unsupported(message, "NO_QUESTION_ANSWERING_HEAD", model=model.name)


def require_label_sets(model: LoadedModel) -> None:
    """Raises Unsupported for a model that does not let any number of labels hold."""
    if not model.encoder.capabilities.multi_label:
        message = (
            f"{model.name} has no multi-label head in its checkpoint, so it can't find sets of labels; load one that has: its "
            "config.json says problem_type multi_label_classification"
        )
        if model.encoder.capabilities.classification:
            message = f"{model.name} chooses one label, not a set; set objective.classification, or load one that has this head"
        raise Unsupported(message, "NO_MULTI_LABEL_HEAD", model=model.name)


def require_objective(model: LoadedModel, query: ObjectiveQuery) -> None:
    """Raises Unsupported for a model without the head that an objective needs."""
    if isinstance(query, LabelledQuery):
        require_classification(model)
    elif isinstance(query, TokenLabelsQuery):
        require_token_classification(model)
    elif isinstance(query, RatedQuery):
        require_regression(model)
    elif isinstance(query, LabelSetsQuery):
        require_label_sets(model)
    elif isinstance(query, AnsweredQuery):
        require_question_answering(model)
    elif isinstance(query, DivergenceQuery):
        require_distribution(model)
    elif isinstance(query, SimilarityQuery):
        require_states(model)
        asked_pooling(model, query)
    else:
        require_cloze(model)


def require_distribution(model: LoadedModel) -> None:
    """Raises Unsupported for a model that predicts neither labels nor masked words."""
    capabilities = model.encoder.capabilities
    if labelling_of(capabilities) is not None:
        return
    if capabilities.regression or capabilities.question_answering:
        gives, items = ("values", "regression") if capabilities.regression else ("answers", "question_answering")
        message = (
            f"{model.name} gives {gives}, not probabilities whose divergence could be measured; set the objective to {items}"
        )
        raise Unsupported(message, "NO_DISTRIBUTION", model=model.name)
    require_cloze(model)


def require_observable(model: LoadedModel, *, asked: bool = True) -> None:
    """Raises Unsupported for a model whose attention can't be observed or changed, if that is `asked`."""
    if asked and not model.encoder.capabilities.observable:
        message = (
            f"{model.name} shows no attention maps and takes no interventions: it drops tokens, has no attention, or was "
            "exported elsewhere; use the model that it was made from"
        )
        raise Unsupported(message, "NOT_OBSERVABLE", model=model.name)


def require_last_states(model: LoadedModel, layers: Sequence[int]) -> None:
    """Raises Unsupported for a model that can't show the states of all tokens at some layers: one that was exported elsewhere
    may show those after its last layer alone."""
    if not model.encoder.capabilities.last_states:
        require_states(model)
    elif set(layers) != {model.encoder.shape.layers}:
        message = (
            f"{model.name} shows the states after its last layer alone, as it was exported elsewhere; ask for layer "
            f"{model.encoder.shape.layers}, or use the model that it was made from"
        )
        raise Unsupported(message, "NO_STATES", model=model.name)


def require_states(model: LoadedModel) -> None:
    """Raises Unsupported for a model that can't show the states of all tokens between its layers."""
    capabilities = model.encoder.capabilities
    if not capabilities.hidden_states or capabilities.drops_tokens:
        message = (
            f"{model.name} can't show the states between its layers: it drops tokens, or was exported elsewhere; use the "
            "model that it was made from"
        )
        raise Unsupported(message, "NO_STATES", model=model.name)


def require_declared_pooling(model: LoadedModel) -> DeclaredPooling:
    """Returns the pooling that a model declares. Raises Unsupported for one that declares none or an unusable one."""
    if model.declared is None:
        message = (
            f"{model.name} declares no pooling: its folder has no modules.json; load a folder of sentence-transformers, or set "
            "another pooling"
        )
        raise Unsupported(message, "NO_DECLARED_POOLING", model=model.name)
    if isinstance(model.declared, UnusableDeclaration):
        message = f"the pooling that {model.name} declares can't be used: {model.declared.problem}; or set another pooling"
        raise Unsupported(message, "DECLARED_POOLING_UNSUPPORTED", model=model.name)
    return model.declared


def asked_pooling(model: LoadedModel, query: SimilarityQuery) -> DeclaredPooling | None:
    """Returns the declared pooling that a query asks of a model; None for another one. Raises Unsupported for a model that
    declares none or an unusable one."""
    if query.pooling is not None or (query.if_declared and model.declared is None):
        return None
    return require_declared_pooling(model)


def require_quantity(model: LoadedModel, quantity: StateQuantity) -> tuple[int, ...]:
    """Returns the dimensions of a quantity of each token. Raises Unsupported for a model that doesn't show it."""
    require_observable(model, asked=quantity is StateQuantity.HEAD_CONTEXTS)
    found = dimensions(model.encoder, quantity)
    if found is None:
        message = (
            f"{model.name} runs in {model.encoder.runtime}, which does not show the activations of feed-forward blocks; "
            "load it from safetensors with runtime torch"
        )
        raise Unsupported(message, "NO_ACTIVATIONS", model=model.name)
    return found


def require_gradients(model: LoadedModel) -> None:
    """Raises Unsupported for a model whose runtime has no gradients."""
    if not model.encoder.capabilities.differentiable:
        message = (
            f"{model.name} has no gradients, as it runs in {model.encoder.runtime} with {model.encoder.precision}; use "
            "the model that it was made from, loaded from safetensors"
        )
        raise Unsupported(message, "NO_GRADIENTS", model=model.name)


def require_frozen(model: LoadedModel) -> None:
    """Raises Unsupported for a model with gradients whose layers can't be frozen."""
    decomposition: object = decomposition_of(model.encoder)
    why = decomposition.frozen_refusal if isinstance(decomposition, Freezes) else "it has no gradients; load it in fp32"
    if why is not None:
        message = f"{model.name} can't freeze its layers: {why}"
        raise Unsupported(message, "FREEZING_UNSUPPORTED", model=model.name)


def require_site(model: LoadedModel, site: Site, layers: Sequence[int]) -> None:
    """Raises Unsupported for a model that shows no units of a site, or no gradients with respect to them."""
    encoder = model.encoder
    if not isinstance(encoder, ChangesSites):
        raise Unsupported(f"{model.name} does not show its {site.value}; load it with runtime torch", "SITE_UNSUPPORTED")
    for layer in layers:
        if why := encoder.site_refusal(site, layer):
            raise Unsupported(f"{model.name} does not show its {site.value}: {why}", "SITE_UNSUPPORTED")


def refuse_sites(request: Message, why: str) -> None:
    """Raises Unsupported for a request that changes sites, in a question that can't be answered then."""
    if getattr(request, "site_interventions", ()):
        raise Unsupported(f"this question takes no changes at sites: {why}", "SITE_UNSUPPORTED")
