"""Kinds of configuration values: how each is read, from TOML or from text, and shown again.

A key belongs to a field of a configuration dataclass (config.py), which carries it as metadata.
Numbers are read as such or from text; where the unit is in the key's name, text may say another
one and is converted: `60s`, `1m` for …Seconds, `50MB` for a number of bytes, `25%` for a share.
Decimal units are decimal (50MB is 50,000,000 bytes, as the documents mean it); MiB is binary.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final

_QUANTITY = re.compile(r"([-+]?[0-9][0-9_]*(?:\.[0-9]+)?)\s*([A-Za-z%]*)")
_NAME = re.compile(r"(?!\.{1,2}$)[-=:.\w]{1,255}", re.ASCII)
_MILLISECONDS: Final = {
    "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
_BYTES: Final = {
    "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Kind:
    """How to read a value (ValueError says what was expected) and how to show it as text."""

    read: Callable[[object], Any]
    expected: str


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    default: Any
    meaning: str
    is_dynamic: bool = False  # may change while the broker runs
    aliases: tuple[str, ...] = ()

    def read(self, raw: object) -> Any:
        try:
            return self.kind.read(raw)
        except ValueError:
            raise ValueError(f"expected {self.kind.expected}, got {_shown(raw)}") from None


def key(
    name: str,
    kind: Kind,
    default: Any,
    meaning: str,
    *,
    dynamic: bool = False,
    aliases: Sequence[str] = (),
) -> Any:
    """A dataclass field that is filled from the configuration key `name`."""
    return field(
        default=default,
        metadata={"key": Key(name, kind, default, meaning, dynamic, tuple(aliases))},
    )


def integer(least: int = 0, most: int = INT_MAX) -> Kind:
    return Kind(lambda raw: _integer(raw, {}, 1, least, most), _range("an integer", least, most))


def seconds(least: int = 0, most: int = INT_MAX) -> Kind:
    return _time("seconds", 1000, least, most)


def milliseconds(least: int = 0, most: int = INT_MAX) -> Kind:
    return _time("milliseconds", 1, least, most)


def minutes(least: int = 0, most: int = INT_MAX) -> Kind:
    return _time("minutes", 60_000, least, most)


def bytes_(least: int = 0, most: int = LONG_MAX) -> Kind:
    expected = _range("bytes (or 64KiB, 50MB, 1GiB)", least, most)
    return Kind(lambda raw: _integer(raw, _BYTES, 1, least, most), expected)


def megabytes(least: int = 0, most: int = INT_MAX) -> Kind:
    """Of 1,048,576 bytes, as in all of upstream's …MB keys; so here 1MB is 1, and 1GB is 1024."""
    units = {"mb": 1, "mib": 1, "gb": 2**10, "gib": 2**10, "tb": 2**20, "tib": 2**20}
    expected = _range("MB (or 64MB, 2GB)", least, most)
    return Kind(lambda raw: _integer(raw, units, 1, least, most), expected)


def number(least: float = 0.0) -> Kind:
    def read(raw: object) -> float:
        value = _quantity(raw, {}, 1)
        if not least <= value < math.inf:
            raise ValueError
        return float(value)

    return Kind(read, f"a number from {least:g}")


def share() -> Kind:
    def read(raw: object) -> float:
        value = float(_quantity(raw, {"%": 0.01}, 1))
        if not 0 <= value <= 1:
            raise ValueError
        return value

    return Kind(read, "a share from 0 to 1, or 0% to 100%")


def flag() -> Kind:
    def read(raw: object) -> bool:
        text = raw.strip().lower() if isinstance(raw, str) else raw
        if text in ("true", "false"):
            return text == "true"
        if not isinstance(text, bool):
            raise ValueError
        return text

    return Kind(read, "true or false")


def text() -> Kind:
    def read(raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError
        return raw.strip()

    return Kind(read, "text")


def name() -> Kind:
    """What can be an element of a path, too."""

    def read(raw: object) -> str:
        if not isinstance(raw, str) or not _NAME.fullmatch(raw.strip()):
            raise ValueError
        return raw.strip()

    return Kind(read, "letters, digits and any of - = : . _")


def choice(choices: type[Enum]) -> Kind:
    by_name = {str(each.value).lower(): each for each in choices}

    def read(raw: object) -> Enum:
        found = by_name.get(raw.strip().lower()) if isinstance(raw, str) else None
        if found is None:
            raise ValueError
        return found

    return Kind(read, "one of " + ", ".join(str(each.value) for each in choices))


def texts(choices: Sequence[str]) -> Kind:
    """A TOML list, or text with commas."""

    def read(raw: object) -> tuple[str, ...]:
        items = raw.split(",") if isinstance(raw, str) else raw
        if not isinstance(items, list) or not all(isinstance(each, str) for each in items):
            raise ValueError
        found = {each.strip() for each in items if each.strip()}
        if not found <= set(choices):
            raise ValueError
        return tuple(sorted(found))

    return Kind(read, "a list of " + ", ".join(choices))


def show(value: Any) -> str:
    """As the admin API gives values of any kind: text that `read` takes back."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _time(unit: str, ms_each: int, least: int, most: int) -> Kind:
    expected = _range(f"{unit} (or 500ms, 60s, 5m, 1h, 1d)", least, most)
    return Kind(lambda raw: _integer(raw, _MILLISECONDS, ms_each, least, most), expected)


def _integer(raw: object, units: dict[str, int], each: int, least: int, most: int) -> int:
    value = _quantity(raw, units, each)
    if value != int(value) or not least <= value <= most:
        raise ValueError
    return int(value)


def _quantity(raw: object, units: Mapping[str, float], each: int) -> int | float:
    """In units of `each`; a bare number is in that unit already."""
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError
    if not isinstance(raw, str):
        if not math.isfinite(raw):
            raise ValueError
        return raw
    match = _QUANTITY.fullmatch(raw.strip())
    # Longer than any number we take, and Python would refuse to convert it anyway.
    if match is None or len(match[1]) > 40:
        raise ValueError
    bare = float(match[1]) if "." in match[1] else int(match[1])
    if not match[2]:
        return bare
    if match[2].lower() not in units:
        raise ValueError
    total = bare * units[match[2].lower()]
    return total if each == 1 else total / each


def _range(what: str, least: int, most: int) -> str:
    return f"{what} from {least}" + ("" if most in (INT_MAX, LONG_MAX) else f" to {most}")


def _shown(raw: object) -> str:
    shown = repr(raw)
    return shown if len(shown) <= 60 else f"{shown[:59]}…"
