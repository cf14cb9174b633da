"""Translates arguments and fields in messages of a client or a server to the options of the command line."""

import re

OPTIONS: tuple[tuple[str, str], ...] = (
    (r"tls=bertscope\.Tls\(ca=\.\.\.\)", "--ca FILE"),
    (r"tls=bertscope\.Tls\(server_name=\.\.\.\)", "--server-name NAME"),
    (r"tls=bertscope\.Tls\(certificate=\.\.\., key=\.\.\.\)", "--certificate FILE --key FILE"),
    (r"tls=bertscope\.Tls\(\)", "--tls"),
    (r"leave tls out", "leave --tls and --ca out"),
    (r"call another target", "name another with --target"),
    (r"^tls: certificate and key", "--certificate and --key"),
    (r"^target: ", "--target "),
    (r"^token: ", "--token-file: "),
    (r"use TLS, or insecure_token\b", "use --tls, or --insecure-token"),
    (r"\ballow more with timeout=", "allow more with --timeout"),
    (r"\btimeout: ", "--timeout: "),
    (r"by resume=True", "by --resume"),
    (r"by replace=True", "by --replace"),
    (r"^output: ", "--output "),
    (r"(?<![-\w])(?:objective\.)?truncate(?![-\w])", "--truncate"),
    (r"(?<![-\w])(?:objective\.\w+\.)?skip_multi_piece\b", "--skip-multi-piece"),
    (r"(?<![-\w.])(?:objective\.\w+\.)?mask_share\b", "--mask-share"),
    (r"(?<![-\w.])top_k\b", "--top-k"),
    (r"(?<![-\w.])candidates(\[\d+\])", r"--candidates\1"),
    (r"(?<![-\w.])reference_texts(?:\[(\d+)\])?", "--reference"),
    (r"(?<![-\w.])punctuation\[\d+\]", "--punctuation"),
    (r"^other_model(?=: )", "--compare"),
    (r"dependencies are read with read_conllu", "leave --propbank out to score dependencies"),
    (r"name another model in other_model, or send interventions", "name another model, or change heads (--zero)"),
    (r"(?<![-\w.])memory_bytes\b", "--memory"),
    (r"(?<![-\w.])greedy\.(metric|step)\b", r"--\1"),
    (r"(?<![-\w.])greedy\.max_removed\b", "--max-removed"),
    (r"(?<![-\w.])greedy\.order\b", "--greedy"),
    (r"(?<![-\w.])bootstrap\.(resamples|confidence)\b", r"--\1"),
    (r"(?<![-\w.])interventions\[\d+\](?:\.\w+(?:\[\d+\])?)?", "--zero, --uniform, --mean or --scale"),
    (r"^layers\[\d+\](?=[: ])", "--layer"),
    (r"^other_layers\[\d+\](?=[: ])", "--other-layer"),
    (r"^words(\[\d+\])(?=: is a word of no text)", r"--neighbours\1"),
    (r"^heads\[\d+\](?=[: ])", "--head"),
    (r"^(?:heads\.heads|activations\.layers)\[\d+\]\.\w+(?:\[\d+\])?(?=[: ])", "--unit"),
    (r"^directions\[\d+\](?:\.\w+)*(?=[: ])", "--direction, --probe or --codes"),
)


def in_options(message: str) -> str:
    """Returns the message with options in the place of arguments and fields."""
    for pattern, option in OPTIONS:
        message = re.sub(pattern, option, message)
    return message
