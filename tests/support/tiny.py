"""Tiny random checkpoints of every supported architecture, as folders that load like any user's.

>>> folder = write_checkpoint("bert", tmp_path / "bert")     # config.json, model.safetensors, tokenizer.json, ...

They are small enough to build in a test and hard enough to catch mistakes: every bias, norm and position is random and
far from its usual 0 or 1, attention is far from uniform, the embedding of padding is not zero, and each architecture
keeps what makes it special (ALBERT's shared layer, MobileBERT's bottleneck, ModernBERT's sliding window, RoBERTa's
position offset). MobileBERT embeds each token with both neighbours, so there the last token of a text sees the padding
after it. A weight depends only on the seed and its name, so the encoder is the same whatever head it has.
"""

import json
import math
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForNextSentencePrediction,
    AutoModelForPreTraining,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    PreTrainedModel,
    PreTrainedTokenizerFast,
)

from tests.support.family import FAMILY, MAX_TOKENS

ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "distilbert", "albert", "electra", "mobilebert", "modernbert")
"""Those that most tests run on; parity with transformers is tested on all of `FAMILY`."""

QUERIES_AND_KEYS = ("query", "key", "q_lin", "k_lin", "q_proj", "k_proj", "Wqkv")
"""Parts of the names of projections whose weights are larger."""

SENTENCES: tuple[str, ...] = (
    "The cat sat.",
    "Paris is the capital of France.",
    "“Wait!” she cried; nobody waited.",
    "Berlin is the capital of Germany, isn't it?",
    "The café in Zürich serves a naïve soufflé for 3.50 €.",
    "東京 is large 😀, and Αθήνα is old.",
    "The nurse told the doctor that her patient had been waiting since 7:45 a.m.",
    "UNBEATABLE: re-recorded songs, unrecognizably mixed, outsold the originals!",
    "When the rain finally stopped, the children who had been waiting in the old house ran out into the garden.",
    "The keys to the cabinet, which the old man had left on the table near the window, are not where they were.",
    (
        "Although the river was high after the long winter, the old man and his dog walked to the market every day, and "
        "the people who saw them said that they were never late and never in a hurry."
    ),
)
"""Texts of 3 to 38 words for tests; each fits in MAX_TOKENS under every tokenizer here."""

_CORPUS = (
    *SENTENCES,
    "Paris is a city in France, and France is a country in Europe.",
    "Berlin is a city in Germany, and Germany is a country in Europe.",
    "Rome is the capital of Italy. Madrid is the capital of Spain.",
    "London is the capital of England. Tokyo is the capital of Japan.",
    "Dante was born in Florence. Mozart was born in Salzburg. Marie was born in Warsaw.",
    "The capital of Italy is Rome, and the capital of Spain is Madrid.",
    "The cat sat on the mat. The dog sat on the table. The bird sat in the tree.",
    "A cat is an animal. A dog is an animal. A rose is a flower. A violin is an instrument.",
    "She plays the violin, he plays the piano, and they play in the garden.",
    "The doctor said that she was late. The nurse said that he was not.",
    "The keys to the house are on the table. The key to the cabinet is in the house.",
    "The man who saw the children was old. The children who saw the man were young.",
    "People say that the winter is long and the summer is short.",
    "It isn't raining, and it wasn't raining when they left the city.",
    "The river is long, the garden is green, and the house is white.",
    "What did the children see near the river? They saw a bird and a tree!",
    "The unhappy player replayed the unplayable song, and the singer recorded it.",
    "Nobody waited for the waiter, who was waiting near the window after the market.",
    "In 1905 the teacher had 42 books; by 1921 she had 365.",
    "Élodie and José met in a café near the Zürich market.",
    "Every day the old man walked to the city, and every day the dog walked with him.",
)


def _pieces(tokenizer: Tokenizer) -> Counter[str]:
    """How often each piece occurs: short or repeated words, common starts and ends of words, every character.

    A piece that starts a word has `▁` before it. Counted, not trained: the WordPiece and Unigram trainers
    give another vocabulary in every process.
    """
    clean = tokenizer.normalizer.normalize_str if tokenizer.normalizer else str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    words = Counter(word for text in _CORPUS for word, _ in split(clean(text)))
    pieces: Counter[str] = Counter()
    for word in words:
        for size in range(2, min(5, len(word))):
            pieces.update(("▁" + word[:size], word[-size:]))
    pieces = Counter({piece: count for piece, count in pieces.items() if count >= 4})
    for word, count in words.items():
        if count >= 2 or len(word) <= 6:
            pieces["▁" + word] += count
        for letter in word:
            pieces[letter] += count
            pieces["▁" + letter] += count
    return Counter({piece: pieces[piece] for piece in sorted(pieces)})


def _wordpiece(specials: list[str]) -> Tokenizer:
    """BERT's: lower-cased, accents stripped, `##` before what continues a word, what has no pieces unknown."""
    tokenizer = Tokenizer(models.WordPiece({}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    pieces = [piece[1:] if piece.startswith("▁") else f"##{piece}" for piece in _pieces(tokenizer)]
    vocabulary = {piece: number for number, piece in enumerate(specials + pieces)}
    tokenizer.model = models.WordPiece(vocabulary, unk_token="[UNK]")
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##")
    return tokenizer


def _byte_level_bpe(specials: list[str]) -> Tokenizer:
    """GPT-2's, as RoBERTa and ModernBERT use it: a space belongs to the word after it, and nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=640, special_tokens=specials, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(_CORPUS, trainer)
    return tokenizer


def _unigram(specials: list[str], *, fold: bool = False) -> Tokenizer:
    """SentencePiece's: `▁` marks the start of a word. With `fold` lower-cased and without accents, as ALBERT's."""
    tokenizer = Tokenizer(models.Unigram())
    if fold:
        quotes = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
        tokenizer.normalizer = normalizers.Sequence(
            [*quotes, normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]
        )
    counts = _pieces(tokenizer) | Counter({"▁": 1})
    scores = [(piece, math.log(count / counts.total())) for piece, count in counts.items()]
    tokenizer.model = models.Unigram([(text, 0.0) for text in specials] + scores, unk_id=specials.index("<unk>"))
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace])
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return tokenizer


@dataclass(frozen=True)
class _Family:
    """One kind of tokenizer: how its vocabulary is built, its special tokens, and how it joins two texts."""

    build: Callable[[list[str]], Tokenizer]
    specials: dict[str, str]
    """Role to text, in the order of the ids from 0."""
    pair: str
    """Template of a pair of texts, with segments; that of a single text is its beginning."""
    mask_last: bool = False
    """Whether the mask token follows the vocabulary instead of being among the first ids."""
    mask_lstrip: bool = True
    """Whether the mask token takes in the space before it, so that the space is no piece of its own."""


_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_ROBERTA = {"cls": "<s>", "pad": "<pad>", "sep": "</s>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "mask": "<mask>"}
_ROBERTA_PAIR = "<s> $A </s> </s> $B </s>"
_SEGMENTED_PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"
_FAMILIES = {
    "wordpiece": _Family(_wordpiece, _BERT, _SEGMENTED_PAIR, mask_lstrip=False),
    "roberta": _Family(_byte_level_bpe, _ROBERTA, _ROBERTA_PAIR, mask_last=True),
    "modernbert": _Family(_byte_level_bpe, _BERT, "[CLS] $A [SEP] $B [SEP]", mask_last=True),
    "xlm-roberta": _Family(_unigram, _ROBERTA, _ROBERTA_PAIR, mask_last=True),
    "albert": _Family(partial(_unigram, fold=True), _BERT | {"pad": "<pad>", "unk": "<unk>"}, _SEGMENTED_PAIR),
}


@cache
def _tokenizer(name: str) -> Tokenizer:
    """The tokenizer of a family with its special tokens and post-processor, ready to be saved."""
    family = _FAMILIES[name]
    mask = family.specials["mask"]
    leading = [text for text in dict.fromkeys(family.specials.values()) if not (family.mask_last and text == mask)]
    tokenizer = family.build(leading)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in leading if text != mask])
    tokenizer.add_special_tokens([AddedToken(mask, special=True, lstrip=family.mask_lstrip)])
    start, end = ((text, leading.index(text)) for text in (family.specials["cls"], family.specials["sep"]))
    if name == "roberta":
        # Unlike a template it also trims the leading space from the offsets of a word.
        tokenizer.post_processor = processors.RobertaProcessing(end, start, trim_offsets=True, add_prefix_space=False)
    else:
        single = f"{start[0]} $A {end[0]}"
        tokenizer.post_processor = processors.TemplateProcessing(single=single, pair=family.pair, special_tokens=[start, end])
    return tokenizer


TASKS: dict[str, Any] = {
    "sequence": AutoModelForSequenceClassification,
    "tokens": AutoModelForTokenClassification,
    "answers": AutoModelForQuestionAnswering,
}
"""What a checkpoint with labels predicts."""

LABELS = ("negative", "positive", "neutral", "mixed")
"""Labels of the checkpoints that classify; a checkpoint has the first few."""

TAGS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
"""Labels of words, for `names`."""


def write_checkpoint(
    architecture: str,
    folder: Path,
    *,
    seed: int = 0,
    head: bool = True,
    labels: int = 0,
    relates: bool = False,
    task: str = "sequence",
    problem: str | None = None,
    names: Sequence[str] = LABELS,
    settings: Mapping[str, Any] | None = None,
) -> Path:
    """Write a checkpoint with random weights into `folder`, which is made, and return it.

    With `head` false the base model is saved, without the masked-LM head; with `labels` a classifier of so many of `names`:
    of texts, of tokens if `task` is "tokens", or with "answers" and two labels a model that answers questions, `problem` being
    the `problem_type` in the config, and `settings` others of its entries;
    with `relates` a pre-training checkpoint, which has a next-sentence head too, or without `head` that alone.
    The same arguments write the same bytes.
    """
    spec = FAMILY[architecture]
    tokenizer, specials = _tokenizer(spec.tokenizer), _FAMILIES[spec.tokenizer].specials
    size = -(-tokenizer.get_vocab_size() // spec.vocabulary_multiple) * spec.vocabulary_multiple
    usual = AutoConfig.for_model(architecture)
    roles = {"bos": specials["cls"], "eos": specials["sep"]} | specials
    ids = {f"{role}_token_id": tokenizer.token_to_id(text) for role, text in roles.items()}
    ids = {
        setting: number for setting, number in ids.items() if setting in spec.ids or getattr(usual, setting, None) is not None
    }
    named = {"id2label": (by_id := dict(enumerate(names[:labels]))), "label2id": {label: n for n, label in by_id.items()}}
    extra: dict[str, Any] = (named | ({"problem_type": problem} if problem else {})) if labels else {}
    extra |= settings or {}
    config = AutoConfig.for_model(architecture, **({"vocab_size": size} | ids | spec.config | extra))
    kind = TASKS[task] if labels else AutoModelForMaskedLM if head else AutoModel
    if relates:
        kind = AutoModelForPreTraining if head else AutoModelForNextSentencePrediction
    model = kind.from_config(config)
    _randomise(model, seed, spec.norm)
    model.save_pretrained(folder)

    inputs = ["input_ids", *(["token_type_ids"] if spec.segments else []), "attention_mask"]
    tokens = {f"{role}_token": text for role, text in specials.items()}
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=MAX_TOKENS, **tokens)
    wrapped.save_pretrained(folder)
    # Real checkpoints name their own class, and AutoTokenizer then rebuilds the tokenizer from its vocabulary.
    path = folder / "tokenizer_config.json"
    saved = json.loads(path.read_text(encoding="utf-8"))
    saved |= {"tokenizer_class": spec.tokenizer_class, "model_input_names": inputs}
    path.write_text(json.dumps(saved, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    return folder


LAB: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("bert", {}),
    "roberta": ("roberta", {}),
    "headless": ("bert", {"head": False}),
    "sorter": ("bert", {"labels": 3}),
    "distilled": ("distilbert", {"labels": 2}),
    "rater": ("bert", {"labels": 1}),
    "topics": ("bert", {"labels": 3, "problem": "multi_label_classification"}),
    "tagger": ("bert", {"task": "tokens", "labels": len(TAGS), "names": TAGS}),
    "answerer": ("bert", {"task": "answers", "labels": 2}),
}
"""The models that samples name: the architecture, and what `write_checkpoint` is told besides. Two have no labels; then one
without a masked-LM head, a classifier of three labels, one of two whose tokens have no segments, a regression, a multi-label
classifier, a classifier of words, and a model that answers questions."""


def write_lab(root: Path, *names: str) -> dict[str, Path]:
    """Write some of these checkpoints into folders of `root`, on one thread: tiny models gain nothing from more."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    folders = {name: write_checkpoint(LAB[name][0], root / name, **LAB[name][1]) for name in names}
    torch.set_num_threads(threads)
    return folders


@torch.no_grad()
def _randomise(model: PreTrainedModel, seed: int, norm: float) -> None:
    """Fill every parameter from its name and the seed: biases off 0, matrices that keep the scale of their input.

    Queries and keys are larger, for attention far from uniform; larger values elsewhere would make the tokens of a
    text alike after two layers.
    """
    embeddings = {id(module.weight) for module in model.modules() if isinstance(module, torch.nn.Embedding)}
    words = model.get_input_embeddings().weight
    for name, parameter in model.named_parameters():
        # The word embeddings are tied to the head, whose name XLM-R lists first.
        name = "words" if parameter is words else name.removeprefix(f"{model.base_model_prefix}.")
        generator = torch.Generator().manual_seed(zlib.crc32(name.encode()) + seed)
        values = torch.randn(parameter.shape, generator=generator)
        if parameter.ndim == 1:
            parameter.copy_(0.2 * values + (norm if name.endswith("weight") else 0))
        elif id(parameter) in embeddings or any(part in name for part in QUERIES_AND_KEYS):
            parameter.copy_(0.5 * values)
        else:
            parameter.copy_(parameter.shape[1] ** -0.5 * values)


def corrupt_weights(folder: Path) -> None:
    """Cut model.safetensors in half, as an interrupted download does."""
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def pickle_only(folder: Path) -> None:
    """Replace model.safetensors by a pickled pytorch_model.bin, which the server must refuse to load."""
    path = folder / "model.safetensors"
    torch.save(load_file(path), folder / "pytorch_model.bin")
    path.unlink()


def unsupported(folder: Path) -> Path:
    """Write a whole tiny checkpoint of an architecture that is not supported (GPT-2, a decoder) and return `folder`."""
    sizes = {"vocab_size": 64, "n_positions": MAX_TOKENS, "n_embd": 32, "n_layer": 2, "n_head": 4}
    config = AutoConfig.for_model("gpt2", bos_token_id=0, eos_token_id=0, **sizes)
    AutoModel.from_config(config).save_pretrained(folder)
    return folder
