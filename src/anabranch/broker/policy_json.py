"""Reading and writing policies as JSON, driven by what the fields of a dataclass say of themselves.

Reading never stops at the first mistake: every problem goes into a list with its path, and the
field falls back to its default. What a newer writer has set and this version does not know is kept
by `policies.py` at the top level; inside a single policy an unknown key is ignored, as the admin
API does with all unknown fields of a request.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, field, fields
from enum import Enum
from typing import Any, Final, TypeAlias

from anabranch.topics.json_fields import Json, shown

Problems: TypeAlias = list[str]
# Reads one JSON value; on a mistake it adds to the problems and returns None.
Reader: TypeAlias = Callable[[Json, str, Problems], Any]
_MISSING: Final = object()


def integer(name: str, default: int, *, least: int, most: int, old_name: str = "") -> Any:
    return _field(name, integer_reader(least, most), default, old_name)


def number(name: str, default: float, *, least: float) -> Any:
    return _field(name, number_reader(least), default)


def flag(name: str, default: bool) -> Any:
    return _field(name, read_flag, default)


def one_of(name: str, choices: type[Enum], default: Enum | None = None) -> Any:
    """Without a default the field is required."""
    return _field(name, choice_reader(choices), _MISSING if default is None else default)


def optional_text(name: str) -> Any:
    return _field(name, read_text, None)


def _field(name: str, reader: Reader, default: object, old_name: str = "") -> Any:
    metadata = {"json": name, "reader": reader, "old": old_name}
    if default is _MISSING:
        # A dataclass wants defaults after defaults; reading still insists on it.
        return field(default=None, metadata=metadata | {"required": True})
    return field(default=default, metadata=metadata)


def integer_reader(least: int, most: int) -> Reader:
    def read(raw: Json, path: str, problems: Problems) -> int | None:
        if not isinstance(raw, int) or isinstance(raw, bool):
            problems.append(_expected(path, "an integer", raw))
            return None
        if not least <= raw <= most:
            problems.append(_expected(path, f"an integer from {least} to {most}", raw))
            return None
        return raw

    return read


def number_reader(least: float) -> Reader:
    def read(raw: Json, path: str, problems: Problems) -> float | None:
        if not isinstance(raw, int | float) or isinstance(raw, bool) or not math.isfinite(raw):
            problems.append(_expected(path, "a number", raw))
            return None
        if raw < least:
            problems.append(_expected(path, f"a number from {least}", raw))
            return None
        return float(raw)

    return read


def choice_reader(choices: type[Enum]) -> Reader:
    by_name = {str(each.value).lower(): each for each in choices}

    def read(raw: Json, path: str, problems: Problems) -> Enum | None:
        found = by_name.get(raw.lower()) if isinstance(raw, str) else None
        if found is None:
            known = ", ".join(str(each.value) for each in choices)
            problems.append(_expected(path, f"one of {known}", raw))
            return None
        return found

    return read


def object_reader(kind: type[Any]) -> Reader:
    """For a dataclass whose fields were made by the functions above."""

    def read(raw: Json, path: str, problems: Problems) -> Any:
        if not isinstance(raw, dict):
            problems.append(_expected(path, "an object", raw))
            return None
        before = len(problems)
        values = {each.name: _read_field(each, raw, path, problems) for each in fields(kind)}
        if len(problems) > before:
            return None
        made = kind(**values)
        flaws = made.flaws() if hasattr(made, "flaws") else []
        problems.extend(f"{path}: {flaw}" for flaw in flaws)
        return made if not flaws else None

    return read


def map_reader(reader: Reader, keys: type[Enum] | None = None) -> Reader:
    """An object of values that are all of one kind, by string or by a member of `keys`."""
    known = None if keys is None else {str(each.value): each for each in keys}

    def read(raw: Json, path: str, problems: Problems) -> Any:
        if not isinstance(raw, dict):
            problems.append(_expected(path, "an object", raw))
            return None
        found: dict[Any, Any] = {}
        for key, value in raw.items():
            if known is not None and key not in known:
                problems.append(f"{path}: key {key!r} must be one of {', '.join(known)}")
                continue
            item = reader(value, f"{path}.{key}", problems)
            if item is not None:
                found[key if known is None else known[key]] = item
        return found

    return read


def read_flag(raw: Json, path: str, problems: Problems) -> bool | None:
    if isinstance(raw, bool):
        return raw
    problems.append(_expected(path, "true or false", raw))
    return None


def read_text(raw: Json, path: str, problems: Problems) -> str | None:
    if isinstance(raw, str):
        return raw
    problems.append(_expected(path, "a string", raw))
    return None


def read_texts(raw: Json, path: str, problems: Problems) -> tuple[str, ...] | None:
    if isinstance(raw, list) and all(isinstance(each, str) for each in raw):
        return tuple(sorted({str(each) for each in raw}))
    problems.append(_expected(path, "a list of strings", raw))
    return None


def write(value: Any) -> Json:
    """The JSON of anything a reader returns; None fields are left out."""
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return [write(each) for each in value]
    if isinstance(value, dict):
        return {str(write(key)): write(each) for key, each in value.items()}
    if hasattr(value, "to_json"):
        own: Json = value.to_json()
        return own
    if hasattr(value, "__dataclass_fields__"):
        return {
            each.metadata["json"]: write(getattr(value, each.name))
            for each in fields(value)
            if getattr(value, each.name) is not None
        }
    plain: Json = value
    return plain


def _read_field(each: Field[Any], raw: dict[str, Json], path: str, problems: Problems) -> Any:
    name = each.metadata["json"]
    value = raw.get(name)
    if value is None:
        value = raw.get(each.metadata["old"])
    if value is None:
        if each.metadata.get("required"):
            problems.append(f"{path}.{name}: missing")
        return each.default
    return each.metadata["reader"](value, f"{path}.{name}", problems)


def _expected(path: str, what: str, raw: Json) -> str:
    return f"{path}: expected {what}, got {shown(raw)}"
