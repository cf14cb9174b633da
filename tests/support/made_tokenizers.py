"""Tokenizers of a few pieces, made without a file: of each kind one backend, and what reads texts by it."""

from collections.abc import Sequence

from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors


def word_pieces(*pieces: str, lowercase: bool = False) -> Tokenizer:
    """WordPiece's; [UNK] is its first piece."""
    backend = Tokenizer(models.WordPiece(numbered(["[UNK]", *pieces]), unk_token="[UNK]"))
    backend.normalizer, backend.decoder = normalizers.BertNormalizer(lowercase=lowercase), decoders.WordPiece(prefix="##")
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend


def byte_level(*merges: tuple[str, str], pieces: Sequence[str] = (), add_prefix_space: bool = False) -> Tokenizer:
    """RoBERTa's, of all bytes, what merges make of them, and further pieces."""
    entries = [*pieces, *sorted(pre_tokenizers.ByteLevel.alphabet()), *("".join(pair) for pair in merges)]
    backend = Tokenizer(models.BPE(numbered(entries), list(merges)))
    backend.pre_tokenizer, backend.decoder = pre_tokenizers.ByteLevel(add_prefix_space=add_prefix_space), decoders.ByteLevel()
    backend.post_processor = processors.ByteLevel(trim_offsets=True)
    return backend


def sentence_pieces(*pieces: str, prepend: str = "always", split: bool = True) -> Tokenizer:
    """XLM-RoBERTa's; <unk> is its first piece, and longer pieces are likelier than their parts.

    split: whether blanks part the text before anything else does.
    """
    backend = Tokenizer(models.Unigram([("<unk>", 0.0), *((piece, -1.0 - 0.1 * len(piece)) for piece in pieces)], unk_id=0))
    metaspace = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme=prepend)
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]) if split else metaspace
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme=prepend)
    return backend


def numbered(pieces: Sequence[str]) -> dict[str, int]:
    return {piece: number for number, piece in enumerate(pieces)}


def reads(backend: Tokenizer, mask: str | None = None, *, lstrip: bool = True, unknown: int | None = 0) -> TextTokenizer:
    """Reads texts of up to 512 tokens by a backend, which gets a mask if it has none."""
    if mask is not None:
        backend.add_special_tokens([AddedToken(mask, special=True, lstrip=lstrip)])
    return TextTokenizer(backend, mask, None if mask is None else backend.token_to_id(mask), unknown, 512)


SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat", "on", "mat", "waiting", "nobody", ".", "wait", "##ing", "no", "##body"]


def tokenizer(words: list[str]) -> TextTokenizer:
    """WordPiece's as BERT has it, of these pieces in this order after the special ones, for texts of up to 64 tokens."""
    backend = Tokenizer(models.WordPiece(numbered(SPECIALS + words), unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIALS)
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return TextTokenizer(backend, "[MASK]", 4, 1, 64)


WHOLE = tokenizer(WORDS)
