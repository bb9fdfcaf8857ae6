"""Delivery: order, merging, the bound of the queue, and listeners that misbehave."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from anabranch.errors import Closed
from anabranch.metadata.store import (
    ChildrenChanged,
    Created,
    Deleted,
    Modified,
    Notification,
    Resync,
)
from anabranch.metadata.watches import Audience, Watches


async def drained() -> None:
    """Let deliveries that are possible now happen: each takes a few turns of the loop."""
    for _ in range(10):
        await asyncio.sleep(0)


def heard_from(
    scenario: Callable[[Watches], Coroutine[Any, Any, None]],
    *,
    max_pending: int = 4,
    prefix: str = "/a",
    recursive: bool = True,
) -> list[Notification]:
    heard: list[Notification] = []

    async def run() -> None:
        watches = Watches(max_pending=max_pending)
        watches.add(prefix, heard.append, recursive=recursive)
        await scenario(watches)
        await drained()

    asyncio.run(run())
    return heard


def test_equal_neighbours_are_merged_and_order_is_kept() -> None:
    async def scenario(watches: Watches) -> None:
        watches.publish([Created("/a/b"), ChildrenChanged("/a"), Modified("/a/b")])
        watches.publish([Deleted("/a/b"), ChildrenChanged("/a"), Created("/a/b")])

    assert heard_from(scenario, max_pending=9) == [
        Created("/a/b"),
        ChildrenChanged("/a"),
        Deleted("/a/b"),
        Created("/a/b"),
    ]


def test_what_was_delivered_is_not_merged_with_what_comes_after() -> None:
    async def scenario(watches: Watches) -> None:
        for _ in range(3):
            watches.publish([Modified("/a")])
            await drained()

    assert heard_from(scenario) == [Modified("/a")] * 3


def test_a_full_queue_becomes_one_resync_that_covers_all_that_follows() -> None:
    async def scenario(watches: Watches) -> None:
        watches.publish(Created(f"/a/{n}") for n in range(50))

    assert heard_from(scenario) == [Resync("/a")]


def test_after_the_resync_was_delivered_changes_are_told_again() -> None:
    async def scenario(watches: Watches) -> None:
        watches.publish(Created(f"/a/{n}") for n in range(50))
        await drained()
        watches.publish([Deleted("/a/7")])

    assert heard_from(scenario) == [Resync("/a"), Deleted("/a/7")]


def test_a_resync_replaces_what_waits_and_names_the_prefix_of_the_watch() -> None:
    async def scenario(watches: Watches) -> None:
        watches.publish([Created("/a/b")])
        watches.resync()
        watches.publish([Modified("/a/b")])

    assert heard_from(scenario) == [Resync("/a")]


def test_an_exact_watch_is_found_by_its_path_alone() -> None:
    async def scenario(watches: Watches) -> None:
        watches.publish([Created("/a"), Created("/a/b"), ChildrenChanged("/a"), Created("/")])

    assert heard_from(scenario, recursive=False) == [Created("/a"), ChildrenChanged("/a")]


def test_closed_watches_leave_nothing_behind() -> None:
    async def run() -> None:
        watches = Watches()
        opened = [watches.add("/a", print, recursive=flag) for flag in (True, False) for _ in "ab"]
        assert len(watches) == 4
        for watch in opened:
            watch.close()
        assert len(watches) == 0
        assert watches._exact == watches._recursive == {}

    asyncio.run(run())


def test_closing_discards_what_still_waits() -> None:
    heard: list[Notification] = []

    async def run() -> None:
        watches = Watches()
        watch = watches.add("/a", heard.append, recursive=True)
        watches.publish([Created("/a")])
        watch.close()
        await drained()

    asyncio.run(run())
    assert heard == []


def test_a_closed_session_takes_no_watch() -> None:
    watches = Watches()
    watches.close()
    with pytest.raises(Closed):
        watches.add("/a", print, recursive=True)


def test_a_failing_listener_is_logged_and_goes_on_hearing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[Notification] = []

    async def fail(notification: Notification) -> None:
        heard.append(notification)
        raise RuntimeError("listener bug")

    async def run() -> None:
        watches = Watches()
        watches.add("/a", fail, recursive=True)
        watches.publish([Created("/a"), Deleted("/a")])
        await drained()

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert heard == [Created("/a"), Deleted("/a")]
    assert "listener bug" in caplog.text


def test_an_audience_survives_members_that_raise_or_leave() -> None:
    audience: Audience[str] = Audience()
    heard: list[str] = []

    def fail(news: str) -> None:
        last.close()
        raise RuntimeError(news)

    audience.add(fail)
    audience.add(heard.append)
    last = audience.add(lambda news: heard.append(f"last {news}"))
    audience.tell("one")
    assert heard == ["one"]
