"""Writes the tables of docs/fields.md: the fields of each request with their units, ranges and defaults."""

from __future__ import annotations

from collections.abc import Iterator

from tools.protos.rules import NUMBERS, Contract, Field, Rules

SETTINGS = {"texts": "`max_texts`", "candidates": "`max_candidates`", "text_characters": "`max_text_characters`"}
"""The settings of a server that bound lists and texts."""

UNITS = ("bytes", "seconds", "tokens", "epochs", "words", "pieces")
"""Words at the end of a number's name that are its unit."""


def requests(contract: Contract) -> Iterator[str]:
    """Yields a heading for each service and a table for each of its requests."""
    before = ""
    for (service, rpc), name in contract.requests.items():
        if service != before:
            yield f"## {service.rpartition('.')[2]}"
        before = service
        yield from (f"### {rpc}", *_table(contract, name), "")


def messages(contract: Contract) -> Iterator[str]:
    """Yields a table for each message that requests hold, by name."""
    requested = set(contract.requests.values())
    for name in sorted(contract.within(requested) - requested):
        if contract.messages[name].fields:
            yield from (f"### {_short(name)}", *_table(contract, name), "")


def _table(contract: Contract, name: str) -> Iterator[str]:
    yield from ("| field | what | range | if left out |", "|---|---|---|---|")
    for field in contract.messages[name].fields:
        range_ = "; ".join(filter(None, _ranges(field)))
        yield f"| `{field.name}` | {_what(field, contract)} | {range_} | {_default(field)} |"


def _short(name: str) -> str:
    return name.removeprefix("bertscope.v1.")


def _what(field: Field, contract: Contract) -> str:
    rules, several = field.items or field.rules, field.items is not None
    if rules.kind == "message":
        known = field.type in contract.messages and contract.messages[field.type].fields
        # A heading's anchor is its text in small letters, without full stops.
        link = f"[{_short(field.type)}](#{_short(field.type).lower().replace('.', '')})" if known else _short(field.type)
        return f"list of {link}" if several else link
    one, many = {"text": ("text", "texts"), "bool": ("true or false", ""), "bytes": ("bytes", "")}.get(
        rules.kind, ("number", "numbers")
    )
    if rules.kind == "enum":
        one = many = f"`{_short(field.type)}`"
    unit = next((unit for unit in UNITS if rules.kind in NUMBERS and field.name.endswith(f"_{unit}")), "")
    return f"list of {many}" if several else f"{one}, {unit}" if unit else one


def _ranges(field: Field) -> Iterator[str]:
    """Yields what a value must be: of a list, its number of entries, then what each must be."""
    rules, items = field.rules, field.items
    if items is None:
        yield from _single(rules)
        if rules.required:
            yield "required"
        return
    least, most = rules.least, _most(rules)
    if most or least:
        yield f"{_between(least, most)} entries"
    yield rules.bound
    if each := ", ".join(filter(None, _single(items))):
        yield f"each {each}"
    if rules.unique:
        yield "none twice"


def _single(rules: Rules) -> Iterator[str]:
    if rules.kind == "text":
        longest = _most(rules)
        if longest or rules.least:
            yield f"{_between(1 if rules.not_blank else rules.least, longest)} code points"
        if rules.not_blank:
            yield "not blank"
    elif rules.kind == "enum" and rules.numbers and 0 not in rules.numbers:
        yield "required"
    elif rules.kind in NUMBERS and not rules.bound:
        if rules.least is not None or rules.most is not None:
            least = f"over {rules.least:,g}" if rules.over else None
            most = f"below {rules.most:,g}" if rules.under else None
            if least or most:
                yield f"{least or f'{rules.least:,g}'}, {most or f'at most {rules.most:,g}'}"
            else:
                yield _between(rules.least, None if rules.most is None else f"{rules.most:,.10g}")
        elif rules.finite:
            yield "finite"
    yield rules.bound


def _most(rules: Rules) -> str:
    """Returns the upper bound of entries or characters, "" for none."""
    if rules.most is not None:
        return f"{rules.most:,.10g}"
    return SETTINGS[rules.limit] if rules.limit else ""


def _between(least: float | None, most: str | None) -> str:
    if not most:
        return f"{least:,g} or more"
    return f"{least:,g} to {most}" if least is not None else f"0 to {most}"


def _default(field: Field) -> str:
    if field.rules.default:
        return field.rules.default
    return "not set" if field.optional else ""
