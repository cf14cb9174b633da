"""WordPiece tokenizers of a few pieces, made without a file."""

from bertscope_service.checkpoints.tokenizer import TextTokenizer
from tokenizers import Tokenizer, models, pre_tokenizers, processors

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["the", "cat", "sat", "on", "mat", "waiting", "nobody", ".", "wait", "##ing", "no", "##body"]


def tokenizer(words: list[str], max_tokens: int = 64) -> TextTokenizer:
    """A WordPiece tokenizer of these pieces, in this order after the special ones."""
    vocabulary = {piece: number for number, piece in enumerate(SPECIALS + words)}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.add_special_tokens(SPECIALS)
    backend.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return TextTokenizer(backend, "[MASK]", 4, 1, max_tokens)


WHOLE = tokenizer(WORDS)
