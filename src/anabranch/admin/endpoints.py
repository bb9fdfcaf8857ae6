"""What the API offers, as data: the router looks requests up in it and OpenAPI is written from it.

A path is text with names in braces. Of several paths that fit, literal elements win from the left,
so `/brokers/health` is not the cluster of that name; a path that fits but lacks the method leaves
room for one that has it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from anabranch.admin.context import Admin
from anabranch.admin.messages import Reply, Request

Handler = Callable[[Admin, Request], Awaitable[Reply]]
Schema = Mapping[str, Any]

ANY: Final[Schema] = {}
OBJECT: Final[Schema] = {"type": "object"}
STRINGS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
NAMES: Final[Schema] = {"type": "array", "items": {"type": "string"}}
INTEGER: Final[Schema] = {"type": "integer"}
FLAG: Final[Schema] = {"type": "boolean"}
TEXT: Final[Schema] = {"type": "string"}


@dataclass(frozen=True, slots=True)
class Query:
    name: str
    schema: Schema = field(default_factory=lambda: TEXT)
    meaning: str = ""


FORCE: Final = Query("force", FLAG, "even if it is in use")
AUTHORITATIVE: Final = Query("authoritative", FLAG, "accepted; one broker owns everything")


@dataclass(frozen=True, slots=True)
class Endpoint:
    method: str
    path: str
    handler: Handler
    summary: str
    query: tuple[Query, ...] = ()
    body: Schema | None = None
    is_body_required: bool = False
    success: int = 204
    answer: Schema | None = None  # None: no body, or text
    refusals: tuple[int, ...] = (404,)  # beside 400, 412, 413 and 503, which anything may answer

    @property
    def elements(self) -> list[str]:
        return self.path.split("/")[1:]

    @property
    def tag(self) -> str:
        return next((each for each in self.elements if each not in ("admin", "v2")), "")


def get(
    path: str,
    handler: Handler,
    summary: str,
    answer: Schema | None = ANY,
    *,
    query: tuple[Query, ...] = (),
    refusals: tuple[int, ...] = (404,),
) -> Endpoint:
    return Endpoint(
        "GET", path, handler, summary, query, success=200, answer=answer, refusals=refusals
    )


class Router:
    def __init__(self, endpoints: Iterable[Endpoint]) -> None:
        self._by_length: dict[int, list[Endpoint]] = {}
        for endpoint in endpoints:
            self._by_length.setdefault(len(endpoint.elements), []).append(endpoint)
        for found in self._by_length.values():
            found.sort(key=lambda each: [is_name(element) for element in each.elements])

    def find(
        self, method: str, elements: Sequence[str]
    ) -> tuple[Endpoint, dict[str, str]] | list[str]:
        """The endpoint and what its names stand for; else the methods that the path does have."""
        methods: list[str] = []
        for endpoint in self._by_length.get(len(elements), []):
            bound = bind(endpoint.elements, elements)
            if bound is None:
                continue
            if endpoint.method == method or (method == "HEAD" and endpoint.method == "GET"):
                return endpoint, bound
            methods.append(endpoint.method)
        return sorted(set(methods))


def is_name(element: str) -> bool:
    return element.startswith("{")


def bind(pattern: Sequence[str], elements: Sequence[str]) -> dict[str, str] | None:
    bound: dict[str, str] = {}
    for expected, element in zip(pattern, elements, strict=True):
        if is_name(expected):
            bound[expected[1:-1]] = element
        elif expected != element:
            return None
    return bound
