"""Results that are read from their message on first use are the same as those made by their constructors."""

import copy
import dataclasses
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import bertscope
import pytest
from bertscope.questions.cloze.answers import read_filled_texts
from bertscope.questions.labels.classification import read_classified_texts
from bertscope.v1 import classification_pb2, cloze_pb2, common_pb2

PROVENANCE = bertscope.Provenance("models/m", "", "torch", "", "fp32", {"torch": "2"}, "zero_based")
SOURCE = common_pb2.Provenance(
    model="models/m",
    runtime=common_pb2.RUNTIME_TORCH,
    precision=common_pb2.PRECISION_FLOAT32,
    library_versions={"torch": "2"},
    numbering=common_pb2.NUMBERING_ZERO_BASED,
)
WORD = bertscope.Prediction("a", ("a", "##b"), (1, 2), 0.5, -0.75, None, 1)
FILLED = bertscope.FilledText("x [MASK]", (bertscope.FilledMask((WORD,), 2, 8, 3),), 5, 1, PROVENANCE)
CLASSIFIED = bertscope.ClassifiedText("x", "y", (bertscope.LabelPrediction("good", 1, 0.5, 1.5),), 5, 1, PROVENANCE)


def filled():
    word = cloze_pb2.Prediction(
        token="a", pieces=["a", "##b"], piece_ids=[1, 2], probability=0.5, log_probability=-0.75, rank=1
    )
    mask = cloze_pb2.FilledMask(predictions=[word], start=2, end=8, token_index=3)
    text = cloze_pb2.FilledText(masks=[mask], tokens=5, truncated_tokens=1)
    return read_filled_texts(["x [MASK]"], cloze_pb2.FillMaskResponse(results=[text], provenance=SOURCE))[0]


def classified():
    label = classification_pb2.LabelPrediction(label="good", index=1, probability=0.5, logit=1.5)
    text = classification_pb2.ClassifiedText(labels=[label], tokens=5, truncated_tokens=1)
    reply = classification_pb2.ClassifyResponse(results=[text], provenance=SOURCE)
    return read_classified_texts([common_pb2.TextInput(text="x", text_pair="y")], reply)[0]


RESULTS = pytest.mark.parametrize(("read", "expected"), [(filled, FILLED), (classified, CLASSIFIED)])


@RESULTS
@pytest.mark.parametrize(
    "use",
    [
        lambda result: result,
        lambda result: pickle.loads(pickle.dumps(result)),
        copy.copy,
        copy.deepcopy,
        dataclasses.replace,
        lambda result: type(result)(**{field.name: getattr(result, field.name) for field in dataclasses.fields(result)}),
    ],
)
def test_a_result_equals_the_one_that_its_constructor_makes(read, expected, use):
    assert use(read()) == expected
    assert repr(use(read())) == repr(expected)
    assert dataclasses.asdict(use(read())) == dataclasses.asdict(expected)
    assert (use(read()).tokens, use(read()).truncated_tokens) == (5, 1)
    pytest.importorskip("pandas").testing.assert_frame_equal(use(read()).to_pandas(), expected.to_pandas())


@pytest.mark.slow
@RESULTS
def test_threads_that_share_a_result_get_the_same_objects(read, expected):
    name = dataclasses.fields(expected)[1 if read is filled else 2].name
    with ThreadPoolExecutor(8) as pool:
        for _ in range(200):
            result, begin = read(), threading.Barrier(8)

            def use(result=result, begin=begin):
                begin.wait()
                return getattr(result, name)

            found = [future.result() for future in [pool.submit(use) for _ in range(8)]]
            assert all(each is found[0] for each in found)
            assert result == expected
