"""What people write for --steps becomes steps, and what is wrong is named."""

import bertscope
import pytest
import typer
from bertscope.questions.compression.steps import HeadRemoval
from bertscope_workbench.command.commands import compress
from bertscope_workbench.command.options import steps as step_grammar
from bertscope_workbench.command.views.output import Failure


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("one\ntwo\n")
    return path


def parse(*values, texts=None):
    return step_grammar.parse(step_grammar.split(values), texts)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("onnx", bertscope.onnx()),
        ("int8", bertscope.int8()),
        ("fp16", bertscope.half("fp16")),
        ("bf16", bertscope.half("bf16")),
        ("int4", bertscope.weight_only(4)),
        ("3bit", bertscope.weight_only(3)),
        ("8bit", bertscope.weight_only(8)),
        ("weight_only=4x32", bertscope.weight_only(4, 32)),
        ("weight_only=8", bertscope.weight_only(8)),
        ("layers=0+2+4", bertscope.keep_layers([0, 2, 4])),
        ("heads=2:1+4/3:0/5:all", HeadRemoval({2: (1, 4), 3: (0,), 5: ()})),
        ("ffn=0.25", bertscope.remove_feed_forward(0.25)),
        ("ffn=0.25:magnitude", bertscope.remove_feed_forward(0.25)),
        ("magnitude=.5", bertscope.magnitude(0.5)),
        ("tokens=1/0.8/0.5", bertscope.eliminate_tokens([1, 0.8, 0.5])),
    ],
)
def test_a_step(written, expected):
    assert parse(written) == [expected]


def test_steps_come_with_commas_or_one_option_each():
    expected = [bertscope.keep_layers([0]), bertscope.int8(), bertscope.onnx()]
    assert parse("layers=0,int8,onnx") == parse("layers=0", "int8 , onnx") == expected


def test_steps_that_rank_read_the_texts(texts):
    assert parse("heads=0.3,ffn=0.5:importance", texts=texts) == [
        bertscope.remove_heads(share=0.3, texts=["one", "two"]),
        bertscope.remove_feed_forward(0.5, "importance", texts=["one", "two"]),
    ]


def test_a_vocabulary_is_read_from_a_file(texts):
    corpus = ["one", "two"]
    assert parse(f"vocabulary={texts}") == [bertscope.reduce_vocabulary(corpus)]
    assert parse(f"vocabulary={texts}:3") == [bertscope.reduce_vocabulary(corpus, 3)]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("nonsense", "--steps nonsense: there is no step 'nonsense'; steps are onnx, int8"),
        ("nonsense=3,onnx", "--steps nonsense=3: there is no step"),
        ("", "write steps with commas between them"),
        ("onnx,,int8", "write steps with commas between them"),
        ("onnx=1", "--steps onnx=1: onnx takes no argument"),
        ("int4=32", "--steps int4=32: int4 takes no argument"),
        ("int9", "there is no step 'int9'"),
        ("layers", "--steps layers: write layers=0\\+2\\+4, for example"),
        ("layers=", "write layers=0"),
        ("layers=0-2", "--steps layers=0-2: '0-2' is not a number from 0"),
        ("layers=0++2", "'nothing' is not a number"),
        ("int8,layers=a", "--steps layers=a: 'a' is not a number"),
        ("weight_only=4x", "write weight_only=BITS"),
        ("weight_only=0", "--steps weight_only=0: bits: must be at least 1"),
        ("weight_only=4x0", "block_size: must be at least 1"),
        ("heads=2", "--steps heads=2: 2 is not a share"),
        ("heads=a", "'a' is not a number"),
        ("heads=0.3", "--steps heads=0.3: needs texts to rank on; give them with --texts"),
        ("heads=2:1/3", "'3' names no heads; write LAYER:HEAD"),
        ("heads=2:1/2:3", "layer 2 comes twice"),
        ("heads=2:", "'nothing' is not a number"),
        ("ffn=1", "1 is not a share"),
        ("ffn=nan", "nan is not a share"),
        ("ffn=0.5:size", "'size' is not a way to rank; write magnitude or importance"),
        ("ffn=0.5:importance", "needs texts to rank on"),
        ("magnitude=half", "'half' is not a number"),
        ("tokens=1/x", "'x' is not a number"),
        ("tokens=nan", r"--steps tokens=nan: kept_shares\[0\]: must be finite"),
        ("vocabulary=:2", "write vocabulary=FILE"),
        ("vocabulary=a.doc", "--steps vocabulary=a.doc: a.doc: the name must end with"),
    ],
)
def test_a_step_that_is_wrong_is_named(written, message):
    with pytest.raises(typer.BadParameter, match=message):
        parse(written)


def test_a_corpus_with_a_count_of_nothing(texts):
    with pytest.raises(typer.BadParameter, match="min_count: must be at least 1"):
        parse(f"vocabulary={texts}:0")


def test_texts_that_no_step_needs(texts):
    with pytest.raises(typer.BadParameter, match="--texts goes with a step that ranks"):
        parse("ffn=0.5", texts=texts)


@pytest.mark.parametrize("written", ["vocabulary=nowhere.txt", "heads=0.5"])
def test_a_file_that_is_not_there(written, tmp_path):
    with pytest.raises(Failure, match=r"cannot read .*nowhere\.txt"):
        parse(written, texts=tmp_path / "nowhere.txt")


def test_what_the_server_says_of_a_step_names_it_as_it_was_written():
    def refuse(message):
        with compress.steps_named(["int8", "heads=0.3"]):
            raise bertscope.Unimplemented(message)

    with pytest.raises(Failure, match=r"^--steps heads=0\.3: ALBERT shares its layers$"):
        refuse("steps[1].heads: ALBERT shares its layers")
    with pytest.raises(Failure, match=r"^--steps heads=0\.3: texts\[3\] has no word$"):
        refuse("steps[1].heads.texts[3] has no word")
    with pytest.raises(Failure, match=r"^steps\[2\] is unknown$"):
        refuse("steps[2] is unknown")
    with pytest.raises(bertscope.Unimplemented, match="no step at all"):
        refuse("no step at all")
