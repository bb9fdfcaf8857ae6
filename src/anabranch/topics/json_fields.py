"""Reading JSON that somebody else wrote: typed fields, and errors that say where.

`Fields` hands out the fields of one object by name and kind, remembers which were asked for, and
gives the rest back untouched, so that a record written by a newer version survives a rewrite by
this one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TypeAlias, TypeVar

from anabranch.errors import AnabranchError, Corrupt

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")

# What other implementations of the record can hold.
_INT_LIMIT = 1 << 63


class Fields:
    def __init__(
        self, raw: Json, path: str, error: Callable[[str], AnabranchError] = Corrupt
    ) -> None:
        """`error` is what a bad field raises: Corrupt in a store, InvalidInput in a request."""
        if not isinstance(raw, dict):
            raise error(f"{path}: expected an object, got {shown(raw)}")
        self._raw = raw
        self._path = path
        self._error = error
        self._asked: set[str] = set()

    def integer(self, name: str, default: int | None = None) -> int:
        return self._required(name, self.optional_integer(name), default)

    def text(self, name: str, default: str | None = None) -> str:
        return self._required(name, self.optional_text(name), default)

    def optional_integer(self, name: str) -> int | None:
        return self._integer(self._take(name), self.path_of(name))

    def optional_number(self, name: str) -> float | None:
        value = self._take(name)
        if value is None or isinstance(value, float):
            return value
        return self._integer(value, self.path_of(name))

    def optional_flag(self, name: str) -> bool | None:
        return self._of_kind(name, bool, "true or false")

    def optional_text(self, name: str) -> str | None:
        return self._of_kind(name, str, "a string")

    def integers(self, name: str) -> tuple[int, ...]:
        """A list of integers; a missing one is empty."""
        found: list[int] = []
        for index, value in enumerate(self.items(name)):
            path = f"{self.path_of(name)}[{index}]"
            number = self._integer(value, path)
            if number is None:
                raise self._error(f"{path}: expected an integer, got null")
            found.append(number)
        return tuple(found)

    def items(self, name: str) -> list[Json]:
        return self._of_kind(name, list, "a list") or []

    def object(self, name: str) -> dict[str, Json]:
        """An object as it stands; a missing one is empty."""
        return self._of_kind(name, dict, "an object") or {}

    def texts(self, name: str) -> dict[str, str]:
        """An object of strings; a missing one is empty."""
        found: dict[str, str] = {}
        for key, value in self.object(name).items():
            if not isinstance(value, str):
                raise self._error(
                    f"{self.path_of(name)}.{key}: expected a string, got {shown(value)}"
                )
            found[key] = value
        return found

    def has(self, name: str) -> bool:
        """Whether the field is there; null counts as missing, since other writers put it so."""
        return self._take(name) is not None

    def nested(self, name: str) -> Fields:
        return Fields(self._take(name), self.path_of(name), self._error)

    def rest(self) -> dict[str, Json]:
        """Every field that nobody asked for."""
        return {name: value for name, value in self._raw.items() if name not in self._asked}

    def path_of(self, name: str) -> str:
        return f"{self._path}.{name}"

    def _take(self, name: str) -> Json:
        self._asked.add(name)
        return self._raw.get(name)

    def _of_kind(self, name: str, kind: type[T], words: str) -> T | None:
        value = self._take(name)
        if value is None or isinstance(value, kind):
            return value
        raise self._error(f"{self.path_of(name)}: expected {words}, got {shown(value)}")

    def _required(self, name: str, value: T | None, default: T | None) -> T:
        found = default if value is None else value
        if found is None:
            raise self._error(f"{self.path_of(name)}: missing")
        return found

    def _integer(self, value: Json, path: str) -> int | None:
        if value is None:
            return None
        # In Python a bool is an int; in the record it is a mistake.
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._error(f"{path}: expected an integer, got {shown(value)}")
        if not -_INT_LIMIT <= value < _INT_LIMIT:
            raise self._error(f"{path}: {shown(value)} does not fit 64 bits")
        return value


def parse_json(data: bytes, what: str) -> Json:
    try:
        parsed: Json = json.loads(data, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise Corrupt(f"{what} is not JSON: {error}") from error
    return parsed


def encode_json(value: Mapping[str, Json]) -> bytes:
    """In ASCII, since a string may hold half a surrogate pair, which UTF-8 cannot carry."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def shown(value: Json) -> str:
    """Enough of a value to recognise it in a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
