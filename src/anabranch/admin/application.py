"""The admin API as an ASGI application: it needs no socket, and one table turns errors to statuses.

A request is bounded in its body, in the time it may take and in how many there are at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from typing import Any

from anabranch.admin.context import Admin
from anabranch.admin.endpoints import Endpoint, Router
from anabranch.admin.messages import Reply, Request, read_query, refusal, split_path
from anabranch.admin.openapi import DOCS_PAGE, describe
from anabranch.admin.statuses import status_of
from anabranch.errors import AnabranchError, TooLarge, TooManyRequests, Unavailable

log = logging.getLogger(__name__)

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class HttpLimits:
    body_bytes: int = 1 << 20
    requests: int = 1024
    body_seconds: float = 30.0
    seconds: float = 120.0


class Disconnected(Exception):
    """The client went away before it had sent everything."""


class Application:
    def __init__(
        self, admin: Admin, endpoints: Iterable[Endpoint], limits: HttpLimits | None = None
    ) -> None:
        self._admin = admin
        self._endpoints = tuple(endpoints)
        self._router = Router(self._endpoints)
        self._limits = limits or HttpLimits()
        self._running = 0
        self._description: dict[str, Any] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        self._running += 1
        try:
            reply = await self._reply(scope, receive)
        except Disconnected:
            return
        finally:
            self._running -= 1
        await _send(reply, send, has_body=scope["method"] != "HEAD")

    async def _reply(self, scope: Scope, receive: Receive) -> Reply:
        method, path = scope["method"], scope["raw_path"]
        try:
            if self._running > self._limits.requests:
                raise TooManyRequests(f"{self._limits.requests} requests are under way already")
            async with asyncio.timeout(self._limits.seconds):
                return await self._answer(scope, receive)
        except AnabranchError as error:
            status = status_of(error)
            if status >= 500:
                log.warning("request failed method=%s path=%r error=%r", method, path, error)
            return refusal(status, str(error) or type(error).__name__)
        except TimeoutError:
            log.warning("request timed out method=%s path=%r", method, path)
            late = Unavailable(f"not done within {self._limits.seconds:g} s; it may be done later")
            return refusal(status_of(late), str(late))
        except Disconnected:
            raise
        except Exception as error:
            log.exception("request failed method=%s path=%r", method, path)
            return refusal(500, f"{type(error).__name__}: {error}")

    async def _answer(self, scope: Scope, receive: Receive) -> Reply:
        elements, has_slash = split_path(scope["raw_path"])
        method = scope["method"]
        if elements == ["metrics"] and not has_slash:
            return Reply(status=302, headers={"location": "/metrics/"})
        if len(elements) == 1 and method in ("GET", "HEAD"):
            page = self._page(elements[0])
            if page is not None:
                return page
        found = self._router.find(method, elements)
        if isinstance(found, list):
            return _not_routed(method, scope["raw_path"], found)
        endpoint, bound = found
        request = Request(
            method,
            bound,
            read_query(scope["query_string"]),
            await self._body(receive),
            scope["raw_path"].decode("ascii", "replace"),
        )
        return await endpoint.handler(self._admin, request)

    def _page(self, name: str) -> Reply | None:
        if name == "openapi.json":
            if self._description is None:
                self._description = describe(self._endpoints)
            return Reply(self._description)
        if name == "docs":
            return Reply(DOCS_PAGE, content_type="text/html; charset=utf-8")
        return None

    async def _body(self, receive: Receive) -> bytes:
        pieces: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._limits.body_seconds):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise Disconnected
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > self._limits.body_bytes:
                    raise TooLarge(f"a body has at most {self._limits.body_bytes} bytes")
                if not message.get("more_body", False):
                    return b"".join(pieces)


def _not_routed(method: str, path: bytes, methods: list[str]) -> Reply:
    shown = path.decode("ascii", "replace")
    if not methods:
        return refusal(404, f"there is nothing at {shown}; see /openapi.json")
    allowed = ", ".join(methods)
    reply = refusal(405, f"{method} is not for {shown}, only {allowed}")
    return Reply(reply.content, reply.status, headers={"allow": allowed})


async def _send(reply: Reply, send: Send, *, has_body: bool) -> None:
    body = reply.encode()
    headers = [(name.encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.content is not None:
        headers.append((b"content-type", reply.content_type.encode()))
    if reply.status != 204:
        headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": body if has_body else b""})
