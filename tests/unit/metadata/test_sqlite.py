"""What only the durable engine promises: group commit, failures of the disk, the file itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from anabranch import errors
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.store import NEW, Created, Notification, SessionEvent, SessionLost
from anabranch.runtime.system import system_world
from anabranch.runtime.system_disk import SystemDatabase, SystemDisk
from anabranch.runtime.world import SqlConnection, World
from tests.metadata_engines import SqliteEngine

T = TypeVar("T")


class FaultyDatabase(SystemDatabase):
    """Fails its next transactions before or after the commit, as told, and counts them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.transactions = 0
        self.fail_before: list[Exception] = []
        self.fail_after: list[Exception] = []

    async def transact(self, work: Callable[[SqlConnection], T]) -> T:
        self.transactions += 1
        if self.fail_before:
            raise self.fail_before.pop()
        result = await super().transact(work)
        if self.fail_after:
            raise self.fail_after.pop()
        return result


class FaultyDisk(SystemDisk):
    database: FaultyDatabase

    async def open_database(self, path: str) -> SystemDatabase:
        self.database = FaultyDatabase(self._root / path)
        return self.database


def faulty_world(directory: Path) -> tuple[World, FaultyDisk]:
    real = system_world(directory)
    disk = FaultyDisk(directory)
    return World(real.clock, real.random, disk, real.network), disk


def test_writes_that_wait_share_a_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        before = disk.database.transactions
        await asyncio.gather(*(store.put(f"/a/{n}", b"", NEW) for n in range(500)))
        assert disk.database.transactions == before + 1
        await store.close()

    asyncio.run(scenario())


def test_a_group_without_changes_needs_no_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        before = disk.database.transactions
        with pytest.raises(errors.NotFound):
            await store.delete("/nothing")
        await store.sync("/")
        assert disk.database.transactions == before
        await store.close()

    asyncio.run(scenario())


def test_nobody_reads_a_write_before_it_is_durable(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        heard: list[Notification] = []
        store.watch("/", heard.append)
        gate = asyncio.Event()
        real = disk.database.transact

        async def held_up(work: Callable[[SqlConnection], T]) -> T:
            result = await real(work)
            await gate.wait()
            return result

        disk.database.transact = held_up  # type: ignore[method-assign]
        writing = asyncio.create_task(store.put("/a", b"", NEW))
        for _ in range(20):
            await asyncio.sleep(0)
        assert await store.get("/a") is None
        assert heard == []
        gate.set()
        await writing
        assert await store.exists("/a")
        await asyncio.sleep(0)
        assert heard[0] == Created("/a")
        await store.close()

    asyncio.run(scenario())


def test_no_room_refuses_the_group_and_later_writes_succeed(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        await store.put("/a", b"one", NEW)
        disk.database.fail_before = [errors.Full("no room")]
        puts = (store.put("/a", b"two", None), store.put("/b", b"", NEW))
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [errors.Full, errors.Full]
        found = await store.get("/a")
        assert found is not None
        assert found[0] == b"one"
        await store.put("/b", b"", NEW)
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("where", ["fail_before", "fail_after"])
def test_any_other_failure_ends_the_sessions_and_a_restart_recovers(
    tmp_path: Path, where: str
) -> None:
    async def scenario() -> None:
        world, disk = faulty_world(tmp_path)
        tree = await SqliteTree.open("a.db", world)
        store = tree.open_session()
        events: list[SessionEvent] = []
        store.on_session(events.append)
        await store.put("/a", b"one", NEW)
        setattr(disk.database, where, [OSError(5, "Input/output error")])
        writes = (store.put("/a", b"two", None), store.put("/b", b"", NEW))
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert all(isinstance(outcome, errors.Unavailable) for outcome in outcomes)
        assert "Input/output error" in str(outcomes[0])
        assert [type(event) for event in events] == [SessionLost]
        with pytest.raises(errors.SessionLost, match="restart"):
            await store.get("/a")
        with pytest.raises(errors.Unavailable):
            tree.open_session()
        await store.close()
        again = (await SqliteTree.open("a.db", world)).open_session()
        found = await again.get("/a")
        assert found is not None
        assert found[0] == (b"one" if where == "fail_before" else b"two")
        await again.close()

    asyncio.run(scenario())


def test_too_much_waiting_is_refused_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.metadata.group_commit.MAX_WAITING", 3)

    async def scenario() -> None:
        store = (await SqliteTree.open("a.db", system_world(tmp_path))).open_session()
        puts = [store.put(f"/{n}", b"", NEW) for n in range(5)]
        outcomes = await asyncio.gather(*puts, return_exceptions=True)
        assert [isinstance(o, errors.Unavailable) for o in outcomes] == [False] * 3 + [True] * 2
        await store.put("/later", b"", NEW)
        await store.close()

    asyncio.run(scenario())


def test_a_second_opener_is_kept_out_until_the_first_closes(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = system_world(tmp_path)
        store = (await SqliteTree.open("deep/down/a.db", world)).open_session()
        with pytest.raises(errors.Unavailable, match="another running process"):
            await SqliteTree.open("deep/down/a.db", world)
        await store.close()
        await (await SqliteTree.open("deep/down/a.db", world)).open_session().close()

    asyncio.run(scenario())


def test_the_file_stays_open_until_the_last_session_closes(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = await SqliteTree.open("a.db", system_world(tmp_path))
        first, second = tree.open_session(), tree.open_session()
        await first.put("/mine", b"", NEW, ephemeral=True)
        await first.close()
        assert not await second.exists("/mine")
        await second.put("/a", b"", NEW)
        await second.close()

    asyncio.run(scenario())


def test_closing_finishes_what_was_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = system_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        writing = [asyncio.create_task(store.put(f"/{n}", b"", NEW)) for n in range(10)]
        await asyncio.sleep(0)
        await store.close()
        await asyncio.gather(*writing)
        again = (await SqliteTree.open("a.db", world)).open_session()
        assert len(await again.children("/")) == 10
        await again.close()

    asyncio.run(scenario())


def test_the_next_process_clears_the_ephemerals_of_the_dead_from_the_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        engine = SqliteEngine(tmp_path)
        store = await engine.open_session()
        await store.put("/mine", b"", NEW, ephemeral=True)
        await engine.kill_and_restart()
        await (await engine.open_session()).close()

    asyncio.run(scenario())
    connection = sqlite3.connect(tmp_path / "meta/store.db")
    assert connection.execute("SELECT count(*) FROM records").fetchone() == (0,)
    connection.close()


def tampered(directory: Path, *statements: str) -> None:
    """A file with two records, then changed behind the engine's back."""

    async def fill() -> None:
        store = (await SqliteTree.open("a.db", system_world(directory))).open_session()
        await store.put("/a", b"value", NEW)
        await store.put("/b", b"value", NEW)
        await store.close()

    asyncio.run(fill())
    connection = sqlite3.connect(directory / "a.db")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def opening(directory: Path) -> None:
    async def scenario() -> None:
        await (await SqliteTree.open("a.db", system_world(directory))).open_session().close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "change",
    [
        "value = CAST('valuf' AS BLOB)",
        "value = 'value'",
        "version = 1, first_version = 2",
        "modified = modified + 1",
        "owner = 3",
        "path = '/c'",
        "checksum = checksum + 1",
    ],
)
def test_a_changed_record_is_found_and_named(tmp_path: Path, change: str) -> None:
    tampered(tmp_path, f"UPDATE records SET {change} WHERE path = '/b'")
    with pytest.raises(errors.Corrupt, match=r"/b|/c"):
        opening(tmp_path)


def test_a_counter_that_went_back_is_found(tmp_path: Path) -> None:
    tampered(tmp_path, "UPDATE settings SET value = 1")
    with pytest.raises(errors.Corrupt, match="version 2"):
        opening(tmp_path)


def test_damaged_pages_are_found(tmp_path: Path) -> None:
    tampered(tmp_path)
    file = tmp_path / "a.db"
    content = bytearray(file.read_bytes())
    content[4096 * 2 : 4096 * 2 + 8] = b"\xff" * 8
    file.write_bytes(content)
    with pytest.raises(errors.Corrupt):
        opening(tmp_path)


def test_a_newer_schema_is_refused_by_its_number(tmp_path: Path) -> None:
    tampered(tmp_path, "PRAGMA user_version = 7")
    with pytest.raises(errors.Refused, match="schema 7, this build knows 1"):
        opening(tmp_path)


def test_the_database_of_another_program_is_left_alone(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("CREATE TABLE theirs (x)")
    connection.commit()
    connection.close()
    with pytest.raises(errors.Refused, match="another program"):
        opening(tmp_path)


def test_a_file_that_is_no_database_is_corrupt(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database " * 1000)
    with pytest.raises(errors.Corrupt):
        opening(tmp_path)


def test_a_refused_file_is_not_kept_locked(tmp_path: Path) -> None:
    tampered(tmp_path, "PRAGMA user_version = 7")
    for _ in range(2):
        with pytest.raises(errors.Refused):
            opening(tmp_path)
