"""What only the shared engine promises: processes that follow and outlive each other."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch import errors
from anabranch.metadata import sqlite_events, sqlite_shared
from anabranch.metadata.election import Election, Leading
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.sqlite_events import Peer, replay
from anabranch.metadata.sqlite_shared import SharedSqlite
from anabranch.metadata.store import NEW, Deleted, MetadataStore, Resync, SessionLost
from anabranch.metadata.tree import Change, Node, Tree
from anabranch.metadata.urls import open_store
from anabranch.runtime.system import system_world
from anabranch.runtime.world import SqlConnection
from tests.metadata_contract import PATIENCE_SECONDS, Heard, play, read
from tests.metadata_engines import SharedSqliteEngine

CHILD_IMPORTS = """
import sys
from anabranch.metadata.election import Election, Leading
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.sqlite_shared import SharedSqlite
from anabranch.runtime.system import system_world
"""
LEAVE_BEHIND = """
async def main():
    store = (await SqliteTree.open("a.db", system_world(Path(sys.argv[1])))).open_session()
    await store.put("/left", b"", -1, ephemeral=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""
LEAD = """
async def main():
    world = system_world(Path(sys.argv[1]))
    store = (await SharedSqlite.open("a.db", world)).session
    election = Election(store, "/leader", b"child", world)
    election.listen(lambda role: print(role, flush=True))
    await election.run()
asyncio.run(main())
"""


COUNT_UP = """
from anabranch.errors import BadVersion
async def main():
    store = (await SharedSqlite.open("a.db", system_world(Path(sys.argv[1])))).session
    while True:
        found = await store.get("/counter")
        count, version = (int(found[0]), found[1].version) if found else (0, -1)
        try:
            await store.put("/counter", b"%d" % (count + 1), version)
            print(count + 1, flush=True)
        except BadVersion:
            await store.sync("/counter")
asyncio.run(main())
"""


def node(version: int, first_version: int) -> Node:
    return Node(b"", version, first_version, 0, 0, None)


@pytest.mark.parametrize(
    ("before", "after", "changes"),
    [
        (None, node(1, 1), [node(1, 1)]),
        (node(1, 1), node(2, 1), [node(2, 1)]),
        (node(1, 1), None, [None]),
        (node(1, 1), node(3, 3), [None, node(3, 3)]),
        (node(1, 1), node(1, 1), []),
        (None, None, [sqlite_events._BRIEF, None]),
    ],
)
def test_lives_and_deaths_between_two_looks_are_replayed(
    before: Node | None, after: Node | None, changes: list[Node | None]
) -> None:
    tree = Tree([] if before is None else [("/a", before)])
    assert replay(tree, {"/a": after}) == [Change("/a", change) for change in changes]


def test_the_ephemerals_of_a_process_that_died_are_removed_by_another(tmp_path: Path) -> None:
    engine = SharedSqliteEngine(tmp_path)

    async def scenario(store: MetadataStore) -> None:
        victim = await engine.open_session()
        heard = Heard()
        store.watch("/locks", heard)
        await victim.put("/locks/a", b"", NEW, ephemeral=True)
        await engine.kill(victim)
        await heard.wait_for(Deleted("/locks/a"))
        await store.close()
        assert [file.name for file in (tmp_path / "meta").glob("*.session-*")] == []

    play(engine, scenario)


def test_who_falls_too_far_behind_reads_everything_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_events, "KEPT_EVENTS", 10)
    engine = SharedSqliteEngine(tmp_path)

    async def scenario(store: MetadataStore) -> None:
        other = await engine.open_session()
        heard = Heard()
        store.watch("/a", heard)
        await asyncio.gather(*(other.put(f"/a/{n}", b"", NEW) for n in range(50)))
        await heard.wait_for(Resync("/a"))
        assert len(await store.children("/a")) == 50
        await store.put("/a/last", b"", NEW)
        await other.sync("/")
        assert await other.exists("/a/last")

    play(engine, scenario)


def test_a_file_is_alone_or_shared_but_not_both(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = system_world(tmp_path)
        alone = (await SqliteTree.open("a.db", world)).open_session()
        await alone.put("/a", b"one", NEW)
        with pytest.raises(errors.Unavailable):
            await SharedSqlite.open("a.db", world)
        await alone.close()
        shared = await open_store("sqlite:a.db?shared=1", world)
        assert await read(shared, "/a") == b"one"
        await shared.put("/b", b"", NEW, ephemeral=True)
        with pytest.raises(errors.Unavailable, match="locked"):
            await SqliteTree.open("a.db", world)
        await shared.close()
        again = (await SqliteTree.open("a.db", world)).open_session()
        assert await again.children("/") == ["a"]
        await again.close()

    asyncio.run(scenario())


def test_ephemerals_of_a_process_that_was_alone_are_not_inherited(tmp_path: Path) -> None:
    code = f"import asyncio, os, signal\nfrom pathlib import Path\n{CHILD_IMPORTS}{LEAVE_BEHIND}"
    child = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert child.returncode == -signal.SIGKILL

    async def scenario() -> None:
        store = (await SharedSqlite.open("a.db", system_world(tmp_path))).session
        assert await store.children("/") == []
        await store.close()

    asyncio.run(scenario())


def test_a_leader_that_is_killed_is_followed_with_a_larger_number(tmp_path: Path) -> None:
    code = f"import asyncio\nfrom pathlib import Path\n{CHILD_IMPORTS}{LEAD}"
    command = [sys.executable, "-c", code, str(tmp_path)]

    async def take_over(child: subprocess.Popen[str]) -> None:
        world = system_world(tmp_path)
        store = (await SharedSqlite.open("a.db", world)).session
        election = Election(store, "/leader", b"parent", world)
        leading = asyncio.Event()
        election.listen(lambda role: leading.set() if isinstance(role, Leading) else None)
        standing = asyncio.create_task(election.run())
        await store.put("/ready", b"", NEW)
        assert not leading.is_set()
        child.send_signal(signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await leading.wait()
        assert election.require_epoch() == 2
        standing.cancel()
        await store.close()

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if "Leading(epoch=1)" in line:
                break
        asyncio.run(take_over(child))


def test_processes_that_count_together_and_are_killed_lose_and_repeat_nothing(
    tmp_path: Path,
) -> None:
    code = f"import asyncio\nfrom pathlib import Path\n{CHILD_IMPORTS}{COUNT_UP}"
    command = [sys.executable, "-c", code, str(tmp_path)]
    counted: list[int] = []
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for number, child in enumerate(children):
        with child:
            assert child.stdout is not None
            for lines, line in enumerate(child.stdout):
                counted.append(int(line))
                if lines == 20 * (number + 1):
                    child.send_signal(signal.SIGKILL)

    async def final() -> int:
        store = (await SharedSqlite.open("a.db", system_world(tmp_path))).session
        count = int(await read(store, "/counter") or b"0")
        await store.close()
        return count

    assert len(set(counted)) == len(counted)
    # Each process may have had one write under way that it could not tell of.
    assert len(counted) <= asyncio.run(final()) <= len(counted) + len(children)


def test_a_process_that_cannot_follow_any_more_ends_its_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = SharedSqliteEngine(tmp_path)

    def damaged(session: int, connection: SqlConnection) -> list[Peer]:
        raise errors.Corrupt("bad page")

    async def scenario(store: MetadataStore) -> None:
        ended = asyncio.Event()
        store.on_session(lambda event: ended.set() if isinstance(event, SessionLost) else None)
        monkeypatch.setattr(sqlite_shared, "peers", damaged)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await ended.wait()
        with pytest.raises(errors.SessionLost, match="bad page"):
            await store.get("/a")

    play(engine, scenario)
