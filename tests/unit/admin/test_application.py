"""The application around the handlers: bounds, errors, pages, odd requests."""

from __future__ import annotations

import asyncio
import logging

import pytest

from anabranch.admin.application import Application, HttpLimits
from anabranch.admin.context import Admin
from anabranch.admin.endpoints import Endpoint
from anabranch.admin.messages import NO_CONTENT, Reply, Request
from anabranch.errors import Corrupt
from tests.admin_world import AdminWorld, play


def test_an_unknown_path_is_not_found_and_says_where_to_look() -> None:
    async def scenario(world: AdminWorld) -> None:
        assert "openapi" in await world.refused(404, "GET", "/nothing/here")
        assert await world.refused(404, "GET", "//")

    play(scenario)


def test_a_wrong_method_is_told_the_right_ones() -> None:
    async def scenario(world: AdminWorld) -> None:
        reply = await world.call("PATCH", "/clusters/standalone")
        assert reply.status_code == 405
        assert reply.headers["allow"] == "DELETE, GET, POST, PUT"
        assert "PATCH" in reply.json()["reason"]

    play(scenario)


def test_a_body_beyond_the_limit_is_refused() -> None:
    async def scenario(world: AdminWorld) -> None:
        reason = await world.refused(413, "PUT", "/tenants/t", content=b" " * 2000)
        assert "1000 bytes" in reason

    play(scenario, limits=HttpLimits(body_bytes=1000))


def test_head_has_the_headers_and_no_body() -> None:
    async def scenario(world: AdminWorld) -> None:
        reply = await world.call("HEAD", "/clusters")
        assert reply.status_code == 200
        assert reply.content == b""
        assert reply.headers["content-length"] == str(len(b'["standalone"]'))

    play(scenario)


def test_metrics_without_its_slash_are_elsewhere() -> None:
    async def scenario(world: AdminWorld) -> None:
        reply = await world.call("GET", "//metrics")
        assert (reply.status_code, reply.headers["location"]) == (302, "/metrics/")
        assert (await world.call("GET", "//metrics/")).status_code == 200

    play(scenario)


def test_a_path_that_is_no_text_is_a_bad_request() -> None:
    async def scenario(world: AdminWorld) -> None:
        await world.refused(400, "GET", "/tenants/%ff")
        await world.refused(400, "GET", "/tenants?a=%ff")

    play(scenario)


def of(handler: object, limits: HttpLimits | None = None) -> Application:
    endpoint = Endpoint("GET", "/x", handler, "")  # type: ignore[arg-type]
    return Application(None, [endpoint], limits)  # type: ignore[arg-type]


async def call(application: Application) -> tuple[int, bytes]:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b""}

    async def send(message: dict[str, object]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "raw_path": b"/x", "query_string": b""}
    await application(scope, receive, send)  # type: ignore[arg-type]
    status, body = sent[0]["status"], sent[1]["body"]
    assert isinstance(status, int)
    assert isinstance(body, bytes)
    return status, body


def test_a_mistake_of_ours_is_logged_and_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(admin: Admin, request: Request) -> Reply:
        raise RuntimeError("boom")

    with caplog.at_level(logging.CRITICAL):
        status, body = asyncio.run(call(of(broken)))
    assert (status, body) == (500, b'{"reason":"RuntimeError: boom"}')


def test_a_corrupt_record_is_a_server_error_with_its_reason() -> None:
    async def corrupt(admin: Admin, request: Request) -> Reply:
        raise Corrupt("ledger 3")

    assert asyncio.run(call(of(corrupt))) == (500, b'{"reason":"ledger 3"}')


def test_what_takes_too_long_is_answered_all_the_same() -> None:
    async def slow(admin: Admin, request: Request) -> Reply:
        await asyncio.Event().wait()
        return NO_CONTENT

    status, body = asyncio.run(call(of(slow, HttpLimits(seconds=0.001))))
    assert status == 503
    assert b"may be done later" in body


def test_so_many_requests_are_served_at_once() -> None:
    async def scenario() -> tuple[int, int]:
        gate = asyncio.Event()

        async def waiting(admin: Admin, request: Request) -> Reply:
            await gate.wait()
            return NO_CONTENT

        application = of(waiting, HttpLimits(requests=1))
        first = asyncio.create_task(call(application))
        await asyncio.sleep(0)
        second = await call(application)
        gate.set()
        return (await first)[0], second[0]

    assert asyncio.run(scenario()) == (204, 429)


def test_a_client_that_leaves_before_its_body_is_answered_by_nobody() -> None:
    async def scenario() -> list[object]:
        sent: list[object] = []

        async def receive() -> dict[str, object]:
            return {"type": "http.disconnect"}

        async def send(message: object) -> None:
            sent.append(message)

        async def never(admin: Admin, request: Request) -> Reply:
            raise AssertionError

        scope = {"type": "http", "method": "GET", "raw_path": b"/x", "query_string": b""}
        await of(never)(scope, receive, send)
        return sent

    assert asyncio.run(scenario()) == []
