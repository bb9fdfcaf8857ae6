"""A request as a handler sees it, and its reply, apart from how a server carries them.

Values that arrive as text are read here: whatever is no number, no flag or no JSON is `Malformed`,
and what does not fit 64 bits is `InvalidInput`. An empty body is no body, whatever its content
type says, because the Java client sends one wherever a body is optional.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qs, unquote

from anabranch.errors import InvalidInput, Malformed
from anabranch.topics.json_fields import Json, shown
from anabranch.topics.names import NamespaceName, TopicName, parse_namespace, parse_topic_name

JSON_TYPE: Final = "application/json"
TEXT_TYPE: Final = "text/plain; charset=utf-8"
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}", re.ASCII)
_LONG: Final = 1 << 63


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    elements: Mapping[str, str]  # of the path, decoded, by their name in the endpoint
    query: Mapping[str, Sequence[str]] = field(default_factory=dict)
    body: bytes = b""
    path: str = ""  # as it was sent

    def __getitem__(self, name: str) -> str:
        return self.elements[name]

    def integer(self, name: str) -> int:
        """An element of the path that is a number."""
        return _read_integer(self.elements[name], name)

    @property
    def namespace(self) -> NamespaceName:
        return parse_namespace(f"{self['tenant']}/{self['namespace']}")

    @property
    def topic(self) -> TopicName:
        return parse_topic_name(f"persistent://{self.namespace}/{self['topic']}")

    def text(self, name: str, default: str = "") -> str:
        values = self.query.get(name)
        return values[-1] if values else default

    def flag(self, name: str, *, default: bool = False) -> bool:
        found = self.text(name).lower()
        if found in ("true", "false"):
            return found == "true"
        if found:
            raise Malformed(f"{name} is {found[:60]!r}; it can be true or false")
        return default

    def number(self, name: str) -> int | None:
        found = self.text(name)
        return _read_integer(found, name) if found else None

    def json(self) -> Json:
        """None without a body."""
        if not self.body.strip():
            return None
        try:
            parsed: Json = json.loads(self.body, parse_constant=_refuse_constant)
        except (ValueError, RecursionError) as error:
            raise Malformed(f"the body is not JSON: {error}") from None
        return parsed

    def required_json(self) -> Json:
        found = self.json()
        if found is None:
            raise Malformed("this needs a body of JSON")
        return found

    def properties(self) -> dict[str, str]:
        """A map of strings, or nothing at all."""
        found = self.json()
        if found is None:
            return {}
        return read_properties(found)


def read_properties(raw: Json) -> dict[str, str]:
    if not isinstance(raw, dict):
        raise Malformed(f"expected an object of strings, got {shown(raw)}")
    found: dict[str, str] = {}
    for key, value in raw.items():
        if not isinstance(value, str):
            raise Malformed(f"property {key[:60]!r}: expected a string, got {shown(value)}")
        found[key] = value
    return found


@dataclass(frozen=True, slots=True)
class Reply:
    """`content` is JSON unless the type says otherwise; None is no body at all."""

    content: Json = None
    status: int = 200
    content_type: str = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        if self.content is None:
            return b""
        if self.content_type == JSON_TYPE:
            return json.dumps(self.content, separators=(",", ":")).encode()
        return str(self.content).encode("utf-8", "replace")


NO_CONTENT: Final = Reply(status=204)


def text_reply(text: str, content_type: str = TEXT_TYPE) -> Reply:
    return Reply(text, content_type=content_type)


def optional_reply(content: Json) -> Reply:
    """204 for what is not set."""
    return NO_CONTENT if content is None else Reply(content)


def refusal(status: int, reason: str) -> Reply:
    return Reply({"reason": reason}, status)


def split_path(raw: bytes) -> tuple[list[str], bool]:
    """The elements, each decoded once, so that an encoded slash stays inside its element; and
    whether a slash stands at the end."""
    parts = raw.split(b"/")[1:]
    has_slash = bool(parts) and not parts[-1]
    if has_slash:
        parts.pop()
    try:
        return [unquote(part.decode("ascii"), errors="strict") for part in parts], has_slash
    except UnicodeDecodeError:
        raise Malformed("the path does not decode to UTF-8 text") from None


def read_query(raw: bytes) -> dict[str, list[str]]:
    try:
        return parse_qs(
            raw.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=100
        )
    except ValueError as error:
        raise Malformed(f"the query does not decode: {error}") from None


def _read_integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise Malformed(f"{name} is {text[:60]!r}; it must be an integer")
    value = int(text)
    if not -_LONG <= value < _LONG:
        raise InvalidInput(f"{name} is {value}, which does not fit 64 bits")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")
