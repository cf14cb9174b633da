"""Tools for people who work with a bertscope server: a command, plots, studies, readers of files, and a page.

A name is imported when it is first used.
"""

from typing import TYPE_CHECKING

# Generated from each module's __all__ by `make client`.
if TYPE_CHECKING:
    from bertscope_workbench.analyses.alignment import (
        AlignedWords,
        AlignmentScores,
        GoldAlignment,
        WordAlignment,
        WordLink,
        align_words,
        score_alignments,
    )
    from bertscope_workbench.analyses.code_length import CodeLengthProgress, CodeLengths, LayerCode, measure_code_length
    from bertscope_workbench.analyses.contacts import ContactScores, contact_relations, read_contacts, score_contacts
    from bertscope_workbench.analyses.names import guess_by_name
    from bertscope_workbench.analyses.neighbours import (
        Neighbour,
        Neighbourhoods,
        Occurrence,
        WordNeighbours,
        nearest_neighbours,
    )
    from bertscope_workbench.analyses.ranking import RankedCandidate, RankedCandidates, rank_candidates
    from bertscope_workbench.analyses.retrieval import RetrievedSentences, retrieve_sentences
    from bertscope_workbench.analyses.substitutions import AMINO_ACIDS, Substitutions, score_substitutions
    from bertscope_workbench.analyses.trees import TreeScores, score_trees
    from bertscope_workbench.analyses.variances import ExplainableVariance, WordVariance, explainable_variance
    from bertscope_workbench.plots.alignment import plot_alignment, save_alignment
    from bertscope_workbench.plots.attention import plot_attention, save_attention
    from bertscope_workbench.plots.attention_page import AttentionPage, attention_page
    from bertscope_workbench.plots.attention_statistics import plot_description, save_description
    from bertscope_workbench.plots.attribution import plot_attribution, save_attribution
    from bertscope_workbench.plots.benchmark import plot_benchmark, save_benchmark
    from bertscope_workbench.plots.code_length import plot_code_length, save_code_length
    from bertscope_workbench.plots.comparison import plot_comparison, save_comparison
    from bertscope_workbench.plots.facts import plot_facts, save_facts
    from bertscope_workbench.plots.geometry import plot_geometry, save_geometry
    from bertscope_workbench.plots.inspection import plot_inspection, save_inspection
    from bertscope_workbench.plots.lens import plot_lens, save_lens
    from bertscope_workbench.plots.probes import plot_probe, plot_regression_probe, save_probe, save_regression_probe
    from bertscope_workbench.plots.relations import plot_features, plot_relations, save_features, save_relations
    from bertscope_workbench.plots.representation_comparison import plot_representations, save_representations
    from bertscope_workbench.plots.retrieval import plot_retrieval, save_retrieval
    from bertscope_workbench.plots.scores import plot_surprisal, save_surprisal
    from bertscope_workbench.plots.structural_probes import plot_structural_probe, save_structural_probe
    from bertscope_workbench.plots.substitutions import plot_substitutions, save_substitutions
    from bertscope_workbench.plots.sweeps import plot_ranking, plot_sweep, save_ranking, save_sweep
    from bertscope_workbench.plots.text_sets import plot_accuracy, save_accuracy
    from bertscope_workbench.plots.traces import plot_trace, save_trace
    from bertscope_workbench.plots.trees import plot_trees, save_trees
    from bertscope_workbench.plots.word_attribution import plot_word_attribution, save_word_attribution
    from bertscope_workbench.readers.answer_rows import read_fact_rows, read_pair_rows
    from bertscope_workbench.readers.embedded_codes import embedded_codes
    from bertscope_workbench.readers.fact_files import read_facts, read_templates, read_words
    from bertscope_workbench.readers.files import (
        INPUTS,
        LABEL_SETS,
        LABELLED,
        PAIRS,
        PROMPTS,
        QUESTIONS,
        RATED,
        SIMILAR,
        TEXTS,
        ItemKind,
        read_answered,
        read_inputs,
        read_label_sets,
        read_labelled,
        read_pairs,
        read_prompts,
        read_questions,
        read_rated,
        read_similar,
        read_texts,
    )
    from bertscope_workbench.readers.items.run import RowsProgress, WrittenItems, write_items
    from bertscope_workbench.readers.items.sources import Item, ItemFile
    from bertscope_workbench.readers.set_files import read_sets
    from bertscope_workbench.readers.span_files import (
        SpanTexts,
        ValuedTexts,
        read_feature_texts,
        read_probe_texts,
        read_relation_texts,
        read_span_texts,
        read_valued_texts,
    )
    from bertscope_workbench.readers.state_files import WrittenStates, write_states
    from bertscope_workbench.readers.translation_files import read_gold_alignments, read_translations
    from bertscope_workbench.readers.treebanks import (
        ConlluLabel,
        ProbeTexts,
        TreeTexts,
        read_conllu,
        read_conllu_features,
        read_probe_conllu,
        read_propbank,
        read_tree_conllu,
    )

_PLACES = {
    "AMINO_ACIDS": "bertscope_workbench.analyses.substitutions",
    "AlignedWords": "bertscope_workbench.analyses.alignment",
    "AlignmentScores": "bertscope_workbench.analyses.alignment",
    "AttentionPage": "bertscope_workbench.plots.attention_page",
    "CodeLengthProgress": "bertscope_workbench.analyses.code_length",
    "CodeLengths": "bertscope_workbench.analyses.code_length",
    "ConlluLabel": "bertscope_workbench.readers.treebanks",
    "ContactScores": "bertscope_workbench.analyses.contacts",
    "ExplainableVariance": "bertscope_workbench.analyses.variances",
    "GoldAlignment": "bertscope_workbench.analyses.alignment",
    "INPUTS": "bertscope_workbench.readers.files",
    "Item": "bertscope_workbench.readers.items.sources",
    "ItemFile": "bertscope_workbench.readers.items.sources",
    "ItemKind": "bertscope_workbench.readers.files",
    "LABELLED": "bertscope_workbench.readers.files",
    "LABEL_SETS": "bertscope_workbench.readers.files",
    "LayerCode": "bertscope_workbench.analyses.code_length",
    "Neighbour": "bertscope_workbench.analyses.neighbours",
    "Neighbourhoods": "bertscope_workbench.analyses.neighbours",
    "Occurrence": "bertscope_workbench.analyses.neighbours",
    "PAIRS": "bertscope_workbench.readers.files",
    "PROMPTS": "bertscope_workbench.readers.files",
    "ProbeTexts": "bertscope_workbench.readers.treebanks",
    "QUESTIONS": "bertscope_workbench.readers.files",
    "RATED": "bertscope_workbench.readers.files",
    "RankedCandidate": "bertscope_workbench.analyses.ranking",
    "RankedCandidates": "bertscope_workbench.analyses.ranking",
    "RetrievedSentences": "bertscope_workbench.analyses.retrieval",
    "RowsProgress": "bertscope_workbench.readers.items.run",
    "SIMILAR": "bertscope_workbench.readers.files",
    "SpanTexts": "bertscope_workbench.readers.span_files",
    "Substitutions": "bertscope_workbench.analyses.substitutions",
    "TEXTS": "bertscope_workbench.readers.files",
    "TreeScores": "bertscope_workbench.analyses.trees",
    "TreeTexts": "bertscope_workbench.readers.treebanks",
    "ValuedTexts": "bertscope_workbench.readers.span_files",
    "WordAlignment": "bertscope_workbench.analyses.alignment",
    "WordLink": "bertscope_workbench.analyses.alignment",
    "WordNeighbours": "bertscope_workbench.analyses.neighbours",
    "WordVariance": "bertscope_workbench.analyses.variances",
    "WrittenItems": "bertscope_workbench.readers.items.run",
    "WrittenStates": "bertscope_workbench.readers.state_files",
    "align_words": "bertscope_workbench.analyses.alignment",
    "attention_page": "bertscope_workbench.plots.attention_page",
    "contact_relations": "bertscope_workbench.analyses.contacts",
    "embedded_codes": "bertscope_workbench.readers.embedded_codes",
    "explainable_variance": "bertscope_workbench.analyses.variances",
    "guess_by_name": "bertscope_workbench.analyses.names",
    "measure_code_length": "bertscope_workbench.analyses.code_length",
    "nearest_neighbours": "bertscope_workbench.analyses.neighbours",
    "plot_accuracy": "bertscope_workbench.plots.text_sets",
    "plot_alignment": "bertscope_workbench.plots.alignment",
    "plot_attention": "bertscope_workbench.plots.attention",
    "plot_attribution": "bertscope_workbench.plots.attribution",
    "plot_benchmark": "bertscope_workbench.plots.benchmark",
    "plot_code_length": "bertscope_workbench.plots.code_length",
    "plot_comparison": "bertscope_workbench.plots.comparison",
    "plot_description": "bertscope_workbench.plots.attention_statistics",
    "plot_facts": "bertscope_workbench.plots.facts",
    "plot_features": "bertscope_workbench.plots.relations",
    "plot_geometry": "bertscope_workbench.plots.geometry",
    "plot_inspection": "bertscope_workbench.plots.inspection",
    "plot_lens": "bertscope_workbench.plots.lens",
    "plot_probe": "bertscope_workbench.plots.probes",
    "plot_ranking": "bertscope_workbench.plots.sweeps",
    "plot_regression_probe": "bertscope_workbench.plots.probes",
    "plot_relations": "bertscope_workbench.plots.relations",
    "plot_representations": "bertscope_workbench.plots.representation_comparison",
    "plot_retrieval": "bertscope_workbench.plots.retrieval",
    "plot_structural_probe": "bertscope_workbench.plots.structural_probes",
    "plot_substitutions": "bertscope_workbench.plots.substitutions",
    "plot_surprisal": "bertscope_workbench.plots.scores",
    "plot_sweep": "bertscope_workbench.plots.sweeps",
    "plot_trace": "bertscope_workbench.plots.traces",
    "plot_trees": "bertscope_workbench.plots.trees",
    "plot_word_attribution": "bertscope_workbench.plots.word_attribution",
    "rank_candidates": "bertscope_workbench.analyses.ranking",
    "read_answered": "bertscope_workbench.readers.files",
    "read_conllu": "bertscope_workbench.readers.treebanks",
    "read_conllu_features": "bertscope_workbench.readers.treebanks",
    "read_contacts": "bertscope_workbench.analyses.contacts",
    "read_fact_rows": "bertscope_workbench.readers.answer_rows",
    "read_facts": "bertscope_workbench.readers.fact_files",
    "read_feature_texts": "bertscope_workbench.readers.span_files",
    "read_gold_alignments": "bertscope_workbench.readers.translation_files",
    "read_inputs": "bertscope_workbench.readers.files",
    "read_label_sets": "bertscope_workbench.readers.files",
    "read_labelled": "bertscope_workbench.readers.files",
    "read_pair_rows": "bertscope_workbench.readers.answer_rows",
    "read_pairs": "bertscope_workbench.readers.files",
    "read_probe_conllu": "bertscope_workbench.readers.treebanks",
    "read_probe_texts": "bertscope_workbench.readers.span_files",
    "read_prompts": "bertscope_workbench.readers.files",
    "read_propbank": "bertscope_workbench.readers.treebanks",
    "read_questions": "bertscope_workbench.readers.files",
    "read_rated": "bertscope_workbench.readers.files",
    "read_relation_texts": "bertscope_workbench.readers.span_files",
    "read_sets": "bertscope_workbench.readers.set_files",
    "read_similar": "bertscope_workbench.readers.files",
    "read_span_texts": "bertscope_workbench.readers.span_files",
    "read_templates": "bertscope_workbench.readers.fact_files",
    "read_texts": "bertscope_workbench.readers.files",
    "read_translations": "bertscope_workbench.readers.translation_files",
    "read_tree_conllu": "bertscope_workbench.readers.treebanks",
    "read_valued_texts": "bertscope_workbench.readers.span_files",
    "read_words": "bertscope_workbench.readers.fact_files",
    "retrieve_sentences": "bertscope_workbench.analyses.retrieval",
    "save_accuracy": "bertscope_workbench.plots.text_sets",
    "save_alignment": "bertscope_workbench.plots.alignment",
    "save_attention": "bertscope_workbench.plots.attention",
    "save_attribution": "bertscope_workbench.plots.attribution",
    "save_benchmark": "bertscope_workbench.plots.benchmark",
    "save_code_length": "bertscope_workbench.plots.code_length",
    "save_comparison": "bertscope_workbench.plots.comparison",
    "save_description": "bertscope_workbench.plots.attention_statistics",
    "save_facts": "bertscope_workbench.plots.facts",
    "save_features": "bertscope_workbench.plots.relations",
    "save_geometry": "bertscope_workbench.plots.geometry",
    "save_inspection": "bertscope_workbench.plots.inspection",
    "save_lens": "bertscope_workbench.plots.lens",
    "save_probe": "bertscope_workbench.plots.probes",
    "save_ranking": "bertscope_workbench.plots.sweeps",
    "save_regression_probe": "bertscope_workbench.plots.probes",
    "save_relations": "bertscope_workbench.plots.relations",
    "save_representations": "bertscope_workbench.plots.representation_comparison",
    "save_retrieval": "bertscope_workbench.plots.retrieval",
    "save_structural_probe": "bertscope_workbench.plots.structural_probes",
    "save_substitutions": "bertscope_workbench.plots.substitutions",
    "save_surprisal": "bertscope_workbench.plots.scores",
    "save_sweep": "bertscope_workbench.plots.sweeps",
    "save_trace": "bertscope_workbench.plots.traces",
    "save_trees": "bertscope_workbench.plots.trees",
    "save_word_attribution": "bertscope_workbench.plots.word_attribution",
    "score_alignments": "bertscope_workbench.analyses.alignment",
    "score_contacts": "bertscope_workbench.analyses.contacts",
    "score_substitutions": "bertscope_workbench.analyses.substitutions",
    "score_trees": "bertscope_workbench.analyses.trees",
    "write_items": "bertscope_workbench.readers.items.run",
    "write_states": "bertscope_workbench.readers.state_files",
}
__all__ = [
    "AMINO_ACIDS",
    "INPUTS",
    "LABELLED",
    "LABEL_SETS",
    "PAIRS",
    "PROMPTS",
    "QUESTIONS",
    "RATED",
    "SIMILAR",
    "TEXTS",
    "AlignedWords",
    "AlignmentScores",
    "AttentionPage",
    "CodeLengthProgress",
    "CodeLengths",
    "ConlluLabel",
    "ContactScores",
    "ExplainableVariance",
    "GoldAlignment",
    "Item",
    "ItemFile",
    "ItemKind",
    "LayerCode",
    "Neighbour",
    "Neighbourhoods",
    "Occurrence",
    "ProbeTexts",
    "RankedCandidate",
    "RankedCandidates",
    "RetrievedSentences",
    "RowsProgress",
    "SpanTexts",
    "Substitutions",
    "TreeScores",
    "TreeTexts",
    "ValuedTexts",
    "WordAlignment",
    "WordLink",
    "WordNeighbours",
    "WordVariance",
    "WrittenItems",
    "WrittenStates",
    "align_words",
    "attention_page",
    "contact_relations",
    "embedded_codes",
    "explainable_variance",
    "guess_by_name",
    "measure_code_length",
    "nearest_neighbours",
    "plot_accuracy",
    "plot_alignment",
    "plot_attention",
    "plot_attribution",
    "plot_benchmark",
    "plot_code_length",
    "plot_comparison",
    "plot_description",
    "plot_facts",
    "plot_features",
    "plot_geometry",
    "plot_inspection",
    "plot_lens",
    "plot_probe",
    "plot_ranking",
    "plot_regression_probe",
    "plot_relations",
    "plot_representations",
    "plot_retrieval",
    "plot_structural_probe",
    "plot_substitutions",
    "plot_surprisal",
    "plot_sweep",
    "plot_trace",
    "plot_trees",
    "plot_word_attribution",
    "rank_candidates",
    "read_answered",
    "read_conllu",
    "read_conllu_features",
    "read_contacts",
    "read_fact_rows",
    "read_facts",
    "read_feature_texts",
    "read_gold_alignments",
    "read_inputs",
    "read_label_sets",
    "read_labelled",
    "read_pair_rows",
    "read_pairs",
    "read_probe_conllu",
    "read_probe_texts",
    "read_prompts",
    "read_propbank",
    "read_questions",
    "read_rated",
    "read_relation_texts",
    "read_sets",
    "read_similar",
    "read_span_texts",
    "read_templates",
    "read_texts",
    "read_translations",
    "read_tree_conllu",
    "read_valued_texts",
    "read_words",
    "retrieve_sentences",
    "save_accuracy",
    "save_alignment",
    "save_attention",
    "save_attribution",
    "save_benchmark",
    "save_code_length",
    "save_comparison",
    "save_description",
    "save_facts",
    "save_features",
    "save_geometry",
    "save_inspection",
    "save_lens",
    "save_probe",
    "save_ranking",
    "save_regression_probe",
    "save_relations",
    "save_representations",
    "save_retrieval",
    "save_structural_probe",
    "save_substitutions",
    "save_surprisal",
    "save_sweep",
    "save_trace",
    "save_trees",
    "save_word_attribution",
    "score_alignments",
    "score_contacts",
    "score_substitutions",
    "score_trees",
    "write_items",
    "write_states",
]
# End of what is generated.


def load_ipython_extension(shell: object) -> None:
    """Shows attention maps, traces, words and readings of layers as pictures in a notebook: `%load_ext bertscope_workbench`."""
    from bertscope_workbench.plots.notebook import register

    register(shell)


if not TYPE_CHECKING:  # A type checker would believe that every name is an attribute.

    def __getattr__(name: str) -> object:
        """Imports a public name when it is first used."""
        from importlib import import_module

        if name not in _PLACES:
            raise AttributeError(f"module 'bertscope_workbench' has no attribute {name!r}", name=name, obj=None)
        value = globals()[name] = getattr(import_module(_PLACES[name]), name)
        return value
