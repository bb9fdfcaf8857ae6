"""The contract of a metadata engine, as tests that every engine must pass.

An engine's test module derives a `Test…` class from `MetadataContract` and has a fixture `engine`
that gives an `EngineUnderTest`. What the contract leaves open (whether parents are records, how
dense versions and sequence numbers are) no test here looks at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

import pytest

from anabranch import errors
from anabranch.metadata.store import (
    MAX_VALUE_BYTES,
    NEW,
    ChildrenChanged,
    ConnectionLost,
    Created,
    Deleted,
    MetadataStore,
    Modified,
    Notification,
    Reconnected,
    Resync,
    SessionEvent,
    SessionLost,
    SessionReestablished,
)

# How long a remote engine may take to tell; a local one needs no time at all.
PATIENCE_SECONDS = 30.0


class EngineUnderTest(Protocol):
    loses_sessions: bool  # a session can end while its process lives
    survives_restart: bool

    async def open_session(self) -> MetadataStore: ...

    async def kill_and_restart(self) -> None:
        """Nothing is closed; sessions opened before are dead."""
        ...

    async def disconnect(self, store: MetadataStore) -> None: ...

    async def expire(self, store: MetadataStore) -> None: ...

    async def reconnect(self, store: MetadataStore) -> None: ...

    async def shut_down(self) -> None: ...


class Heard:
    """A listener that remembers, and a way to wait for what it will hear."""

    def __init__(self) -> None:
        self.all: list[Notification] = []
        self._news = asyncio.Event()

    def __call__(self, notification: Notification) -> None:
        self.all.append(notification)
        self._news.set()

    def of(self, path: str) -> list[Notification]:
        return [notification for notification in self.all if notification.path == path]

    async def until(self, enough: Callable[[list[Notification]], bool]) -> list[Notification]:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not enough(self.all):
                self._news.clear()
                await self._news.wait()
        return self.all

    async def wait_for(self, notification: Notification) -> None:
        await self.until(lambda heard: notification in heard)


def play(
    engine: EngineUnderTest, scenario: Callable[[MetadataStore], Coroutine[Any, Any, None]]
) -> None:
    """Run a scenario with a first session, and put the engine away whatever happens."""

    async def run() -> None:
        try:
            await scenario(await engine.open_session())
        finally:
            await engine.shut_down()

    asyncio.run(run())


async def read(store: MetadataStore, path: str) -> bytes | None:
    found = await store.get(path)
    return None if found is None else found[0]


class MetadataContract:
    # Reading and writing

    def test_what_was_put_is_read_with_its_stat(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            assert await store.get("/a/b") is None
            assert not await store.exists("/a/b")
            stat = await store.put("/a/b", b"one", NEW)
            assert await store.get("/a/b") == (b"one", stat)
            assert await store.exists("/a/b")
            assert (stat.path, stat.ephemeral, stat.created_by_self) == ("/a/b", False, False)
            assert stat.first_version
            assert stat.created_ms == stat.modified_ms > 0

        play(engine, scenario)

    def test_an_update_has_another_version_and_keeps_the_creation_time(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: MetadataStore) -> None:
            first = await store.put("/a", b"one", NEW)
            second = await store.put("/a", b"two", first.version)
            assert second.version != first.version
            assert second.created_ms == first.created_ms
            assert not second.first_version
            assert await store.get("/a") == (b"two", second)

        play(engine, scenario)

    def test_empty_values_and_all_bytes_are_kept(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            for value in (b"", bytes(range(256)), b"\0" * MAX_VALUE_BYTES):
                await store.put("/value", value, None)
                assert await read(store, "/value") == value

        play(engine, scenario)

    def test_put_without_expectation_creates_and_overwrites(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            created = await store.put("/a", b"one", None)
            assert created.first_version
            assert not (await store.put("/a", b"two", None)).first_version

        play(engine, scenario)

    def test_new_is_refused_where_a_record_is(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"one", NEW)
            with pytest.raises(errors.BadVersion):
                await store.put("/a", b"two", NEW)
            assert await read(store, "/a") == b"one"

        play(engine, scenario)

    def test_a_version_is_refused_where_another_or_none_is(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            first = await store.put("/a", b"one", NEW)
            await store.put("/a", b"two", first.version)
            with pytest.raises(errors.BadVersion):
                await store.put("/a", b"three", first.version)
            with pytest.raises(errors.BadVersion):
                await store.put("/b", b"one", first.version)
            assert await read(store, "/a") == b"two"
            assert await store.get("/b") is None

        play(engine, scenario)

    def test_of_many_concurrent_compare_and_sets_one_wins(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            stores = [store, await engine.open_session()]
            stat = await store.put("/a", b"start", NEW)
            for _ in range(5):
                puts = [stores[i % 2].put("/a", str(i).encode(), stat.version) for i in range(20)]
                outcomes = await asyncio.gather(*puts, return_exceptions=True)
                won = [
                    i for i, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)
                ]
                assert len(won) == 1
                assert sum(isinstance(o, errors.BadVersion) for o in outcomes) == 19
                await store.sync("/a")
                found = await store.get("/a")
                assert found is not None
                assert found[0] == str(won[0]).encode()
                stat = found[1]

        play(engine, scenario)

    def test_a_path_never_sees_a_version_again(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            seen = set()
            for _ in range(5):
                first = await store.put("/a", b"", NEW)
                second = await store.put("/a", b"", None)
                seen |= {first.version, second.version}
                await store.delete("/a", second.version)
            assert len(seen) == 10

        play(engine, scenario)

    def test_writes_of_another_session_are_read_after_sync(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            await store.put("/a", b"one", NEW)
            await other.sync("/a")
            assert await read(other, "/a") == b"one"

        play(engine, scenario)

    def test_a_cancelled_put_harms_nobody(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            abandoned = asyncio.create_task(store.put("/a", b"abandoned", None))
            await asyncio.sleep(0)
            abandoned.cancel()
            await asyncio.gather(abandoned, return_exceptions=True)
            stat = await store.put("/b", b"kept", NEW)
            assert await store.get("/b") == (b"kept", stat)
            assert await read(store, "/a") in (None, b"abandoned")

        play(engine, scenario)

    def test_sync_settles_writes_that_were_abandoned(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            for n in range(10):
                abandoned = asyncio.create_task(store.put("/a", str(n).encode(), None))
                await asyncio.sleep(0)
                abandoned.cancel()
                await store.sync("/a")
                settled = await store.get("/a")
                await store.put("/b", b"", None)
                assert await store.get("/a") == settled

        play(engine, scenario)

    # Deleting

    def test_delete_removes_and_needs_a_record(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"", NEW)
            await store.delete("/a")
            assert await store.get("/a") is None
            with pytest.raises(errors.NotFound):
                await store.delete("/a")

        play(engine, scenario)

    def test_delete_with_another_version_is_refused(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            first = await store.put("/a", b"one", NEW)
            second = await store.put("/a", b"two", None)
            with pytest.raises(errors.BadVersion):
                await store.delete("/a", first.version)
            assert await read(store, "/a") == b"two"
            await store.delete("/a", second.version)
            assert await store.get("/a") is None

        play(engine, scenario)

    def test_a_record_with_children_is_not_deleted(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"", NEW)
            await store.put("/a/b", b"", NEW)
            with pytest.raises(errors.NotEmpty):
                await store.delete("/a")
            await store.delete("/a/b")
            await store.delete("/a")

        play(engine, scenario)

    def test_delete_recursive_takes_the_subtree_and_nothing_else(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: MetadataStore) -> None:
            for path in ("/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/ab/c"):
                await store.put(path, b"", NEW)
            await store.delete_recursive("/a")
            for path in ("/a", "/a/b", "/a/b/c", "/a/d"):
                assert await store.get(path) is None
            assert await store.exists("/ab")
            assert await store.exists("/ab/c")
            await store.delete_recursive("/a")

        play(engine, scenario)

    # Listing

    def test_children_are_direct_names_in_order(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            for path in ("/a/c", "/a/b", "/a/b/x", "/a/d/y", "/ab"):
                await store.put(path, b"", NEW)
            assert await store.children("/a") == ["b", "c", "d"]
            assert await store.children("/a/b") == ["x"]
            assert await store.children("/a/c") == []
            assert await store.children("/nothing") == []
            assert {"a", "ab"} <= set(await store.children("/"))

        play(engine, scenario)

    def test_scan_gives_direct_children_with_values(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            stats = [await store.put(f"/a/{n}", n.encode(), NEW) for n in ("one", "two")]
            await store.put("/a/one/below", b"", NEW)
            found = [pair async for pair in store.scan("/a")]
            assert found == [(b"one", stats[0]), (b"two", stats[1])]
            assert [pair async for pair in store.scan("/nothing")] == []

        play(engine, scenario)

    # Sequential

    def test_sequential_names_grow_and_are_never_reused(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            names = []
            for n in range(6):
                stat = await store.put("/q/op", str(n).encode(), NEW, sequential=True)
                names.append(stat.path)
                assert await store.get(stat.path) == (str(n).encode(), stat)
                if n % 2:
                    await store.delete(stat.path)
            assert all(len(name) == len("/q/op-") + 20 for name in names)
            assert all(name[6:].isdigit() for name in names)
            assert names == sorted(set(names))

        play(engine, scenario)

    def test_concurrent_sequential_puts_get_names_of_their_own(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            puts = [s.put("/q/op", b"", None, sequential=True) for s in (store, other) * 10]
            stats = await asyncio.gather(*puts)
            assert len({stat.path for stat in stats}) == 20
            await store.sync("/q")
            assert len(await store.children("/q")) >= 20

        play(engine, scenario)

    # Bad input

    @pytest.mark.parametrize(
        "path",
        [
            "",
            "a",
            "/a/",
            "//",
            "/a//b",
            "/a/./b",
            "/..",
            "/a b",
            "/a\n",
            "/é",
            "/a\0",
            "/" + "x" * 5000,
        ],
    )
    def test_malformed_paths_are_refused(self, engine: EngineUnderTest, path: str) -> None:
        async def scenario(store: MetadataStore) -> None:
            with pytest.raises(errors.InvalidInput):
                await store.put(path, b"", None)
            with pytest.raises(errors.InvalidInput):
                await store.get(path)
            with pytest.raises(errors.InvalidInput):
                await store.delete(path)
            with pytest.raises(errors.InvalidInput):
                await store.children(path)
            with pytest.raises(errors.InvalidInput):
                store.watch(path, lambda _: None)

        play(engine, scenario)

    def test_the_root_is_no_record(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            with pytest.raises(errors.InvalidInput):
                await store.put("/", b"", None)
            with pytest.raises(errors.InvalidInput):
                await store.delete("/")

        play(engine, scenario)

    def test_values_beyond_the_bound_are_refused(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            with pytest.raises(errors.InvalidInput):
                await store.put("/a", b"x" * (MAX_VALUE_BYTES + 1), None)
            assert await store.get("/a") is None

        play(engine, scenario)

    def test_a_sequential_put_cannot_expect_a_version(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            with pytest.raises(errors.InvalidInput):
                await store.put("/a", b"", 3, sequential=True)

        play(engine, scenario)

    # Ephemeral records

    def test_an_ephemeral_ends_with_its_session(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            owner = await engine.open_session()
            heard = Heard()
            store.watch("/locks", heard)
            mine = await owner.put("/locks/a", b"owner", NEW, ephemeral=True)
            assert mine.ephemeral
            assert mine.created_by_self
            await heard.wait_for(Created("/locks/a"))
            found = await store.get("/locks/a")
            assert found is not None
            assert found[1].ephemeral
            assert not found[1].created_by_self
            await owner.close()
            await heard.wait_for(Deleted("/locks/a"))
            assert await store.get("/locks/a") is None

        play(engine, scenario)

    def test_an_update_by_anybody_keeps_the_owner(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            owner = await engine.open_session()
            heard = Heard()
            store.watch("/a", heard)
            first = await owner.put("/a", b"one", NEW, ephemeral=True)
            await store.sync("/a")
            updated = await store.put("/a", b"two", first.version)
            assert updated.ephemeral
            assert not updated.created_by_self
            await owner.sync("/a")
            found = await owner.get("/a")
            assert found is not None
            assert found[1].created_by_self
            await owner.close()
            await heard.wait_for(Deleted("/a"))

        play(engine, scenario)

    def test_an_update_never_makes_a_record_ephemeral(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"one", NEW)
            stat = await store.put("/a", b"two", None, ephemeral=True)
            assert not stat.ephemeral

        play(engine, scenario)

    def test_ephemerals_have_no_children(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"", NEW, ephemeral=True)
            for path in ("/a/b", "/a/b/c"):
                with pytest.raises(errors.InvalidInput):
                    await store.put(path, b"", NEW)
            assert await store.children("/a") == []

        play(engine, scenario)

    def test_ephemeral_and_sequential_go_together(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            owner = await engine.open_session()
            heard = Heard()
            store.watch("/q", heard)
            stat = await owner.put("/q/op", b"", NEW, ephemeral=True, sequential=True)
            assert stat.created_by_self
            await owner.close()
            await heard.wait_for(Deleted(stat.path))

        play(engine, scenario)

    # Watches

    def test_changes_are_told_in_order(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            heard = Heard()
            store.watch("/a", heard)
            for writer in (store, other):
                await writer.put("/a/b", b"one", NEW)
                await heard.wait_for(Created("/a/b"))
                await writer.put("/a/b", b"two", None)
                await heard.wait_for(Modified("/a/b"))
                await writer.delete("/a/b")
                await heard.wait_for(Deleted("/a/b"))
                assert heard.of("/a/b") == [Created("/a/b"), Modified("/a/b"), Deleted("/a/b")]
                heard.all.clear()

        play(engine, scenario)

    def test_parents_are_told_of_names_that_come_and_go(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            await store.put("/a/b/kept", b"", NEW)
            heard = Heard()
            store.watch("/a", heard)
            await store.put("/a/b/c", b"", NEW)
            await heard.wait_for(ChildrenChanged("/a/b"))
            heard.all.clear()
            await store.put("/a/b/c", b"again", None)
            await store.delete("/a/b/c")
            await heard.wait_for(ChildrenChanged("/a/b"))
            assert heard.all.count(ChildrenChanged("/a/b")) == 1
            assert ChildrenChanged("/a") not in heard.all

        play(engine, scenario)

    def test_a_parent_made_on_demand_is_told_to_its_own_parent(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: MetadataStore) -> None:
            heard = Heard()
            store.watch("/a", heard, recursive=False)
            await store.put("/a/b/c", b"", NEW)
            await heard.wait_for(ChildrenChanged("/a"))
            assert await store.children("/a") == ["b"]

        play(engine, scenario)

    def test_a_watch_covers_its_prefix_and_no_neighbour(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            heard, everything = Heard(), Heard()
            store.watch("/a", heard)
            store.watch("/", everything)
            for path in ("/ab", "/a", "/a/b/c", "/b"):
                await store.put(path, b"", NEW)
            await everything.wait_for(Created("/b"))
            assert Created("/ab") in everything.all
            assert [n for n in heard.all if isinstance(n, Created) and n.path != "/a/b"] == [
                Created("/a"),
                Created("/a/b/c"),
            ]
            assert all(n.path == "/a" or n.path.startswith("/a/") for n in heard.all)

        play(engine, scenario)

    def test_an_exact_watch_hears_of_one_path(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            heard = Heard()
            store.watch("/a", heard, recursive=False)
            await store.put("/a", b"", NEW)
            await heard.wait_for(Created("/a"))
            await store.put("/a/b", b"", NEW)
            await store.put("/a/b", b"", None)
            await store.delete("/a/b")
            await store.delete("/a")
            await heard.wait_for(Deleted("/a"))
            assert {n.path for n in heard.all} == {"/a"}
            assert heard.all[0] == Created("/a")
            assert heard.all[-1] == Deleted("/a")

        play(engine, scenario)

    def test_a_change_can_be_read_when_it_is_told(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            values: list[bytes | None] = []
            done = asyncio.Event()

            async def listener(notification: Notification) -> None:
                if notification.path == "/a":
                    values.append(await read(store, "/a"))
                    if values[-1] == b"4":
                        done.set()

            store.watch("/a", listener)
            for n in range(5):
                await other.put("/a", str(n).encode(), None)
            async with asyncio.timeout(PATIENCE_SECONDS):
                await done.wait()
            assert values == sorted(values, key=str)
            assert values[-1] == b"4"

        play(engine, scenario)

    def test_a_closed_watch_hears_nothing_more(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            heard, witness = Heard(), Heard()
            watch = store.watch("/a", heard)
            store.watch("/a", witness)
            await store.put("/a", b"one", NEW)
            await heard.wait_for(Created("/a"))
            watch.close()
            watch.close()
            before = list(heard.all)
            await store.put("/a", b"two", None)
            await witness.wait_for(Modified("/a"))
            assert heard.all == before

        play(engine, scenario)

    def test_a_watch_may_be_closed_by_its_own_listener(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            heard, witness = Heard(), Heard()

            async def once(notification: Notification) -> None:
                watch.close()
                await asyncio.sleep(0)
                heard(notification)

            watch = store.watch("/a", once)
            store.watch("/a", witness)
            await store.put("/a", b"one", NEW)
            await store.put("/a", b"two", None)
            await store.delete("/a")
            await witness.wait_for(Deleted("/a"))
            await heard.until(lambda all_heard: len(all_heard) > 0)
            assert heard.all == [Created("/a")]

        play(engine, scenario)

    def test_a_listener_that_raises_hurts_nobody(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            attempts, heard = Heard(), Heard()

            def fail(notification: Notification) -> None:
                attempts(notification)
                raise RuntimeError("listener bug")

            store.watch("/a", fail)
            store.watch("/a", heard)
            await store.put("/a", b"one", NEW)
            await heard.wait_for(Created("/a"))
            await store.put("/a", b"two", None)
            await heard.wait_for(Modified("/a"))
            await attempts.wait_for(Modified("/a"))

        play(engine, scenario)

    def test_a_listener_that_hangs_holds_up_nobody_and_loses_nothing(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: MetadataStore) -> None:
            release, heard, slow = asyncio.Event(), Heard(), Heard()

            async def hang(notification: Notification) -> None:
                await release.wait()
                slow(notification)

            store.watch("/a", hang)
            store.watch("/a", heard)
            for start in range(0, 3000, 200):
                names = range(start, start + 200)
                await asyncio.gather(*(store.put(f"/a/{n}", b"", NEW) for n in names))
            await heard.wait_for(Created("/a/2999"))
            release.set()
            await slow.until(lambda told: Resync("/a") in told or len(told) >= 3000)
            if Resync("/a") not in slow.all:
                assert slow.of("/a/2999") == [Created("/a/2999")]

        play(engine, scenario)

    # Sessions

    def test_a_closed_session_refuses_calls(self, engine: EngineUnderTest) -> None:
        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            heard = Heard()
            other.watch("/a", heard)
            await other.close()
            await other.close()
            with pytest.raises(errors.Closed):
                await other.get("/a")
            with pytest.raises(errors.Closed):
                await other.put("/a", b"", None)
            with pytest.raises(errors.Closed):
                other.watch("/a", heard)
            await store.put("/a", b"", NEW)
            assert heard.all == []

        play(engine, scenario)

    def test_an_expired_session_loses_its_ephemerals_and_begins_anew(
        self, engine: EngineUnderTest
    ) -> None:
        if not engine.loses_sessions:
            pytest.skip("sessions of this engine end only with their process")

        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            events: list[SessionEvent] = []
            heard, witness = Heard(), Heard()
            other.on_session(events.append)
            other.watch("/a", heard)
            store.watch("/a", witness)
            await other.put("/a", b"", NEW, ephemeral=True)
            await engine.expire(other)
            await witness.wait_for(Deleted("/a"))
            assert [type(event) for event in events][-1] is SessionLost
            with pytest.raises(errors.SessionLost):
                await other.get("/a")
            with pytest.raises(errors.SessionLost):
                await other.put("/a", b"", None)
            await engine.reconnect(other)
            await heard.wait_for(Resync("/a"))
            assert events[-1] == SessionReestablished()
            assert await other.get("/a") is None
            assert (await other.put("/a", b"", NEW, ephemeral=True)).created_by_self

        play(engine, scenario)

    def test_a_short_cut_costs_a_resync_but_no_session(self, engine: EngineUnderTest) -> None:
        if not engine.loses_sessions:
            pytest.skip("this engine lives in its process: there is no connection to lose")

        async def scenario(store: MetadataStore) -> None:
            other = await engine.open_session()
            events: list[SessionEvent] = []
            heard = Heard()
            other.on_session(events.append)
            await other.put("/mine", b"", NEW, ephemeral=True)
            other.watch("/a", heard)
            await engine.disconnect(other)
            with pytest.raises(errors.Unavailable):
                await other.get("/a")
            await store.put("/a", b"missed", NEW)
            await engine.reconnect(other)
            await heard.wait_for(Resync("/a"))
            assert events == [ConnectionLost(), Reconnected()]
            assert await read(other, "/a") == b"missed"
            found = await other.get("/mine")
            assert found is not None
            assert found[1].created_by_self

        play(engine, scenario)

    # Restarts

    def test_records_survive_a_kill_and_ephemerals_do_not(self, engine: EngineUnderTest) -> None:
        if not engine.survives_restart:
            pytest.skip("this engine keeps nothing")

        async def scenario(store: MetadataStore) -> None:
            await store.put("/a", b"one", NEW)
            kept = await store.put("/a", b"two", None)
            child = await store.put("/a/b", b"", NEW)
            await store.put("/locks/x", b"", NEW, ephemeral=True)
            await engine.kill_and_restart()
            again = await engine.open_session()
            assert await again.get("/a") == (b"two", kept)
            assert await again.get("/a/b") == (b"", child)
            assert await again.get("/locks/x") is None
            assert "x" not in await again.children("/locks")

        play(engine, scenario)

    def test_versions_and_sequences_go_on_after_a_kill(self, engine: EngineUnderTest) -> None:
        if not engine.survives_restart:
            pytest.skip("this engine keeps nothing")

        async def scenario(store: MetadataStore) -> None:
            versions, names = [], []
            for _ in range(3):
                versions.append((await store.put("/a", b"", NEW)).version)
                await store.delete("/a")
                stat = await store.put("/q/op", b"", NEW, sequential=True)
                names.append(stat.path)
                await store.delete(stat.path)
                await engine.kill_and_restart()
                store = await engine.open_session()
            assert len(set(versions)) == 3
            assert names == sorted(set(names))

        play(engine, scenario)
