"""examples/finetune.py on a toy task: what it learns, what it saves, what it says of bad files."""

import json
import re
import stat
from collections.abc import Callable
from pathlib import Path

import bertscope_workbench as workbench
import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from examples import finetune, questions

GOOD = ("The cat sat.", "A cat is an animal.", "The cat sat on the mat.", "She plays the violin.")
BAD = ("Berlin is a city.", "Paris is a city.", "Rome is the capital of Italy.", "London is large.")


def tsv(path: Path, *, header: str = "sentence\tlabel", rows: list[str] | None = None) -> Path:
    toy = [f"{text}\t{label}" for label, texts in ((1, GOOD), (0, BAD)) for text in texts] * 3
    path.write_text("\n".join([header, *(toy if rows is None else rows), ""]), encoding="utf-8")
    return path


@pytest.fixture
def arguments(checkpoint: Callable[[str], Path], tmp_path: Path) -> list[str]:
    """A run on the toy task with a tiny model that has no classification head."""
    files = ["--train", str(tsv(tmp_path / "train.tsv")), "--dev", str(tsv(tmp_path / "dev.tsv"))]
    model = ["--model", str(checkpoint("bert")), "--output", str(tmp_path / "tuned")]
    return [*files, "--text", "sentence", *model, "--batch-size", "8", "--learning-rate", "3e-3"]


@pytest.mark.slow
def test_it_learns_a_separable_task_and_saves_what_transformers_loads(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune.main([*arguments, "--names", "bad,good", "--epochs", "20"])

    printed = capsys.readouterr().out
    assert "start from random weights: bert.pooler.dense.bias, bert.pooler.dense.weight, classifier.bias" in printed
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", printed)]
    assert len(losses) == 20 and losses[-1] < losses[0] / 2
    assert "dev accuracy 1.0000" in printed.splitlines()[-1]

    tuned = tmp_path / "tuned"
    assert {"config.json", "model.safetensors", "tokenizer.json"} <= {path.name for path in tuned.iterdir()}
    folder, weights = (stat.S_IMODE(path.stat().st_mode) for path in (tuned, tuned / "model.safetensors"))
    assert weights == folder & 0o666
    model = AutoModelForSequenceClassification.from_pretrained(tuned).eval()
    assert model.config.id2label == {0: "bad", 1: "good"}
    assert model.config.label2id == {"bad": 0, "good": 1}
    encoded = AutoTokenizer.from_pretrained(tuned)([*BAD, *GOOD], padding=True, return_tensors="pt")
    with torch.inference_mode():
        assert model(**encoded).logits.argmax(-1).tolist() == [0] * len(BAD) + [1] * len(GOOD)


@pytest.mark.slow
def test_an_untrained_model_takes_the_shape_alone(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    finetune.main([*arguments, "--untrained", "--epochs", "1", "--learning-rate", "1e-9"])

    assert "start from random weights: all" in capsys.readouterr().out
    source, tuned = (
        AutoModelForSequenceClassification.from_pretrained(folder)
        for folder in (arguments[arguments.index("--model") + 1], tmp_path / "tuned")
    )
    assert source.config.hidden_size == tuned.config.hidden_size
    assert not torch.allclose(*(model.bert.embeddings.word_embeddings.weight for model in (source, tuned)), atol=1e-3)


@pytest.mark.slow
def test_words_learn_their_labels(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sentences = "The\tO\ncat\tB-CAT\nsat\tO\n\nBerlin\tB-CITY\nis\t_\nlarge\tO\n\n"
    (words := tmp_path / "words.tsv").write_text(sentences * 12, encoding="utf-8")
    own = ["--task", "words", "--train", str(words), "--dev", str(words)]
    asked = [*own, *arguments[arguments.index("--model") :], "--epochs", "40"]
    finetune.main(asked)
    printed = capsys.readouterr().out
    assert "24 texts to learn from; of 60 in" in printed and "60.0% are O" in printed
    assert "dev accuracy 1.0000" in printed.splitlines()[-1]
    model = AutoModelForTokenClassification.from_pretrained(tmp_path / "tuned").eval()
    assert model.config.id2label == {0: "B-CAT", 1: "B-CITY", 2: "O"}
    encoded = AutoTokenizer.from_pretrained(tmp_path / "tuned")("Berlin is large", return_tensors="pt")
    with torch.inference_mode():
        assert model(**encoded).logits[0, encoded.char_to_token(0)].argmax() == 1
    with pytest.raises(SystemExit, match="none of O, B-CAT; see --names"):
        finetune.main([*asked, "--names", "O,B-CAT", "--output", str(tmp_path / "other")])
    with pytest.raises(SystemExit, match="--task words takes no --text"):
        finetune.main([*asked, "--text", "sentence"])


def printed_scores(printed: str) -> dict[str, float]:
    """The scores after the last epoch, by name."""
    last = printed.splitlines()[-1]
    return {name: float(score) for name, score in re.findall(r"dev ([\w ]+?) (-?\d+\.\d{4})", last)}


@pytest.mark.slow
def test_pairs_learn_their_values(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [f"{one}\t{other}\t{value}" for one, other, value in zip(GOOD, BAD, (0, 0, 1, 1), strict=True)] * 6
    pairs = str(tsv(tmp_path / "pairs.tsv", header="sentence\tsecond\tscore", rows=rows))
    own = ["--task", "values", "--text-pair", "second", "--label", "score"]
    finetune.main([*arguments, *own, "--train", pairs, "--dev", pairs, "--epochs", "60"])
    printed = capsys.readouterr().out
    assert "values from 0 to 1, variance 0.250" in printed
    found = printed_scores(printed)
    assert found["Pearson"] > 0.8 and found["Spearman"] > 0.7 and found["squared error"] < 0.1
    config = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").config
    assert (config.num_labels, config.problem_type) == (1, "regression")


@pytest.mark.slow
def test_questions_learn_their_answers(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of short passages, of one that is longer than the model reads, and of one without the answer."""
    asked = [
        ("Where is the cat?", "The cat is in Berlin.", ["Berlin"]),
        ("Where is the cat?", "The cat is in Paris.", ["Paris", "in Paris"]),
        ("Where is the cat?", "She plays the violin. " * 12 + "The cat is in Rome.", ["Rome"]),
        ("Where is the cat?", "She plays the violin.", []),
    ]
    questions = tmp_path / "questions.jsonl"
    lines = [json.dumps(dict(zip(("question", "passage", "answer"), one, strict=True))) for one in asked]
    questions.write_text("\n".join(lines * 4), encoding="utf-8")
    own = ["--task", "answers", "--train", str(questions), "--dev", str(questions)]
    finetune.main([*own, *arguments[arguments.index("--model") :], "--epochs", "40"])
    printed = capsys.readouterr().out
    assert "25.0% of 16 questions" in printed
    assert printed_scores(printed) == {"exact match": 1.0, "F1": 1.0}
    AutoModelForQuestionAnswering.from_pretrained(tmp_path / "tuned")
    with pytest.raises(SystemExit, match="--task answers takes no --names"):
        finetune.main([*own, *arguments[arguments.index("--model") :], "--names", "a,b"])


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        ("text\tgold", ["a\t1"], "bad.tsv has no column 'sentence'; its columns are text, gold"),
        ("sentence\tgold", ["a\t1"], "bad.tsv has no column 'label'; its columns are sentence, gold"),
        ("sentence\tlabel", ["a\t1", "b"], "bad.tsv line 3 has 1 columns, the first line has 2"),
        ("sentence\tlabel", ["a\t1", "b\t2"], "bad.tsv line 3: label '2' is none of 0, 1; see --names"),
        ("sentence\tlabel", [], "bad.tsv has no examples, only the names of its columns"),
    ],
)
def test_a_bad_file_is_named_with_its_line(
    arguments: list[str], tmp_path: Path, header: str, rows: list[str], message: str
) -> None:
    bad = tsv(tmp_path / "bad.tsv", header=header, rows=rows)
    with pytest.raises(SystemExit) as caught:
        finetune.main([*arguments, "--dev", str(bad)])
    assert str(caught.value) == f"finetune.py: {tmp_path}/{message}"
    assert not (tmp_path / "tuned").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--dev", "/nowhere.tsv"], "No such file or directory: '/nowhere.tsv'"),
        (["--names", "one"], "--names must be two or more different ones"),
        (["--task", "values", "--dev", "DEV"], "values.tsv line 2: 'x' is no number"),
        (["--task", "answers"], "--task answers takes no --text"),
        (["--epochs", "0"], "--epochs and --batch-size must be at least 1"),
        (["--model", "/nowhere"], "the server has no folder /nowhere"),
        (["--output", str(Path(__file__).parent)], "is not empty; give a new folder"),
    ],
)
def test_bad_options_end_in_one_line(arguments: list[str], changed: list[str], message: str, tmp_path: Path) -> None:
    values = tsv(tmp_path / "values.tsv", rows=["a\tx"])
    with pytest.raises(SystemExit) as caught:
        finetune.main([*arguments, *(str(values) if each == "DEV" else each for each in changed)])
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_questions_about_capitals_can_be_read(tmp_path: Path) -> None:
    """No country is in both files, and a fifth of the questions has no answer."""
    files = tmp_path / "train.jsonl", tmp_path / "dev.jsonl"
    questions.main(*map(str, files))
    train, dev = (workbench.read_answered(file) for file in files)
    assert {question for question, *_ in train}.isdisjoint(question for question, *_ in dev)
    for items in (train, dev):
        assert sum(not answers for *_, answers in items) == len(items) / 5 > 50
