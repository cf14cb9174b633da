"""Figures of relations show the best heads beside their baselines, and those of features a map for each."""

import bertscope
from bertscope.questions.attention.relation_replies import read_feature_scores, read_relation_scores
from bertscope_workbench.command.views.relations import print_relations
from bertscope_workbench.plots.relations import MAX_RELATIONS

from tests.support.descriptions import feature_scores, relation_scores
from tests.support.stored_outputs import printed

SCORES = read_relation_scores(relation_scores({"nsubj": 2, "a" * 60: 4, "$x$": 1}, 3, 4))


def test_relations_and_features(stored) -> None:
    message = relation_scores({"good": 2, "bad": 2}, 1, 2)
    for detail in message.details:
        detail.forward_correct[:] = [1 + detail.text_index % 2, 0] if detail.relation == 0 else [0, detail.text_index % 2]
        detail.backward_correct[:] = [0, 0]
    for relation, score in enumerate(message.relations):
        score.forward.correct[:] = [60, 0] if relation == 0 else [0, 20]
        score.backward.correct[:] = [0, 0]
    beaten = read_relation_scores(message)
    del message.details[:]
    many = read_relation_scores(
        relation_scores({f"r{index}": 1 + index % 3 for index in range(MAX_RELATIONS + 5)}, 2, 2, texts=6)
    )
    of_many = bertscope.plot_relations(many, "forward", dark=True)
    features = read_feature_scores(feature_scores(["noun", "[CLS]"], 3, 4))
    stored(
        most_pairs_first=bertscope.plot_relations(SCORES),
        a_head_that_does_not_beat_the_offset=bertscope.plot_relations(beaten, dark=True),
        not_compared_with_the_offset=bertscope.plot_relations(read_relation_scores(message)),
        many=[of_many.get_suptitle(), len(of_many.axes[0].get_yticks())],
        features=bertscope.plot_features(features),
        dark_features=bertscope.plot_features(features, dark=True),
        printed=printed(print_relations, beaten, None, 5),
        nothing=[
            lambda: bertscope.plot_relations(read_relation_scores(relation_scores({}, 2, 2))),
            lambda: bertscope.plot_features(read_feature_scores(feature_scores(["noun"], 2, 2, texts=0))),
        ],
    )
