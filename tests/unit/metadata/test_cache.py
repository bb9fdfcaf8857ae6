from __future__ import annotations

import asyncio

import pytest

from anabranch import errors
from anabranch.metadata.cache import CachedStore
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.store import NEW, MetadataStore, Notification, Resync
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.system import SystemClock
from tests.metadata_contract import read
from tests.metadata_faults import Gated


async def turns(count: int = 20) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Setting:
    """A cached session over a gated one, and another session of the same tree."""

    def __init__(self, *, max_records: int = 100, max_bytes: int = 1_000_000) -> None:
        self.tree = MemoryTree(SystemClock())
        self.session: TreeSession = self.tree.open_session()
        self.gated = Gated(self.session, "get", "children")
        self.cache = CachedStore(self.gated, max_records=max_records, max_bytes=max_bytes)
        self.other: MetadataStore = self.tree.open_session()


def test_a_second_read_does_not_ask_the_store() -> None:
    async def scenario() -> None:
        s = Setting()
        await s.other.put("/a/b", b"one", NEW)
        for _ in range(3):
            assert await read(s.cache, "/a/b") == b"one"
            assert await s.cache.children("/a") == ["b"]
            assert await s.cache.get("/absent") is None
        assert s.gated.calls == 3
        assert (s.cache.stats.hits, s.cache.stats.misses, s.cache.stats.records) == (6, 3, 3)

    asyncio.run(scenario())


def test_changes_by_others_are_seen_once_announced() -> None:
    async def scenario() -> None:
        s = Setting()
        assert await s.cache.get("/a") is None
        assert await s.cache.children("/") == []
        await s.other.put("/a", b"one", NEW)
        await turns()
        assert await read(s.cache, "/a") == b"one"
        assert await s.cache.children("/") == ["a"]
        await s.other.delete("/a")
        await turns()
        assert await s.cache.get("/a") is None
        assert await s.cache.children("/") == []

    asyncio.run(scenario())


def test_whoever_is_told_of_a_change_reads_it() -> None:
    async def scenario() -> None:
        s = Setting()
        seen: list[bytes | None] = []

        async def listener(notification: Notification) -> None:
            if notification.path == "/a":
                seen.append(await read(s.cache, "/a"))

        s.cache.watch("/", listener)
        for value in (b"one", b"two", b"three"):
            await read(s.cache, "/a")
            await s.other.put("/a", value, None)
            await turns()
        assert seen == [b"one", b"two", b"three"]

    asyncio.run(scenario())


def test_a_read_that_a_change_overtook_is_not_kept_nor_joined() -> None:
    async def scenario() -> None:
        s = Setting()
        await s.other.put("/a", b"old", NEW)
        await turns()
        s.gated.gate.clear()
        early = asyncio.create_task(read(s.cache, "/a"))
        await turns()
        await s.other.put("/a", b"new", None)
        await turns()
        late = asyncio.create_task(read(s.cache, "/a"))
        await turns()
        s.gated.gate.set()
        assert await early == b"old"
        assert await late == b"new"
        assert await read(s.cache, "/a") == b"new"
        assert s.gated.calls == 2

    asyncio.run(scenario())


def test_concurrent_readers_share_one_read_even_if_the_first_gives_up() -> None:
    async def scenario() -> None:
        s = Setting()
        await s.other.put("/a", b"one", NEW)
        await turns()
        s.gated.gate.clear()
        readers = [asyncio.create_task(read(s.cache, "/a")) for _ in range(5)]
        await turns()
        readers[0].cancel()
        await turns()
        s.gated.gate.set()
        assert await asyncio.gather(*readers[1:]) == [b"one"] * 4
        assert s.gated.calls == 1

    asyncio.run(scenario())


def test_own_writes_are_read_at_once() -> None:
    async def scenario() -> None:
        s = Setting()
        for value in (b"one", b"two"):
            await s.cache.get("/a/b")
            await s.cache.children("/a")
            await s.cache.children("/")
            await s.cache.put("/a/b", value, None)
            assert await read(s.cache, "/a/b") == value
            assert await s.cache.children("/a") == ["b"]
            assert await s.cache.children("/") == ["a"]
        await s.cache.delete("/a/b")
        assert await s.cache.get("/a/b") is None
        assert await s.cache.children("/") == []
        stat = await s.cache.put("/q", b"x", None, sequential=True)
        assert await read(s.cache, stat.path) == b"x"
        await s.cache.delete_recursive("/")
        assert await s.cache.get(stat.path) is None

    asyncio.run(scenario())


def test_a_lost_compare_and_set_drops_the_stale_value() -> None:
    async def scenario() -> None:
        s = Setting()
        stat = await s.cache.put("/a", b"one", NEW)
        assert await read(s.cache, "/a") == b"one"
        s.tree.disconnect(s.session)  # the announcement of the next write does not arrive
        await s.other.put("/a", b"two", None)
        assert await read(s.cache, "/a") == b"one"
        with pytest.raises(errors.Unavailable):
            await s.cache.put("/a", b"three", stat.version)
        with pytest.raises(errors.Unavailable):
            await s.cache.get("/a")

    asyncio.run(scenario())


def test_a_short_cut_is_bridged_and_then_everything_is_read_again() -> None:
    async def scenario() -> None:
        s = Setting()
        heard: list[Notification] = []
        s.cache.watch("/x", heard.append)
        await s.cache.put("/a", b"one", NEW)
        await read(s.cache, "/a")
        await turns()
        s.tree.disconnect(s.session)
        await s.other.put("/a", b"two", None)
        assert await read(s.cache, "/a") == b"one"
        s.tree.reconnect(s.session)
        assert await read(s.cache, "/a") == b"two"
        await turns()
        assert heard == [Resync("/x")]

    asyncio.run(scenario())


def test_more_changes_than_can_be_told_empty_the_cache() -> None:
    async def scenario() -> None:
        s = Setting()
        await asyncio.gather(*(s.other.put(f"/a/{n}", b"", NEW) for n in range(2_000)))
        await turns()
        assert await s.cache.exists("/a/7")
        await s.other.delete_recursive("/a")
        await turns()
        assert not await s.cache.exists("/a/7")

    asyncio.run(scenario())


def test_a_lost_session_empties_the_cache_at_once() -> None:
    async def scenario() -> None:
        s = Setting()
        await s.cache.put("/a", b"one", NEW, ephemeral=True)
        await read(s.cache, "/a")
        s.tree.expire(s.session)
        assert s.cache.stats.records == s.cache.stats.used_bytes == 0
        with pytest.raises(errors.SessionLost):
            await s.cache.get("/a")

    asyncio.run(scenario())


def test_the_least_recently_used_goes_first() -> None:
    async def scenario() -> None:
        s = Setting(max_records=2)
        for path in ("/a", "/b", "/a", "/c"):
            await s.cache.get(path)
        reads = s.gated.calls
        await s.cache.get("/a")
        assert s.gated.calls == reads
        await s.cache.get("/b")
        assert s.gated.calls == reads + 1
        assert s.cache.stats.records == 2

    asyncio.run(scenario())


def test_bytes_are_bounded_too() -> None:
    async def scenario() -> None:
        s = Setting(max_bytes=10_000)
        for n in range(10):
            await s.other.put(f"/{n}", b"x" * 4_000, NEW)
        await s.other.put("/huge", b"x" * 20_000, NEW)
        await turns()
        for n in range(10):
            await s.cache.get(f"/{n}")
        assert s.cache.stats.records == 2
        assert await read(s.cache, "/huge") == b"x" * 20_000
        assert s.cache.stats.records == s.cache.stats.used_bytes == 0

    asyncio.run(scenario())


def test_a_failed_read_is_not_remembered() -> None:
    async def scenario() -> None:
        s = Setting()
        s.tree.disconnect(s.session)
        with pytest.raises(errors.Unavailable):
            await s.cache.get("/a")
        s.tree.reconnect(s.session)
        assert await s.cache.get("/a") is None

    asyncio.run(scenario())


def test_closing_leaves_no_watch_behind() -> None:
    async def scenario() -> None:
        s = Setting()
        s.cache.watch("/a", print)
        await s.cache.close()
        assert len(s.session._watches) == 0
        with pytest.raises(errors.Closed):
            await s.cache.get("/a")

    asyncio.run(scenario())
