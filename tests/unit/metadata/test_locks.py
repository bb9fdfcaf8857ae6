from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from anabranch import errors
from anabranch.metadata.locks import (
    LAST_RETRY_SECONDS,
    Create,
    EndEarlierLife,
    Held,
    HeldBy,
    Keep,
    Lock,
    LockState,
    Rename,
    Step,
    Unheld,
    Wait,
    decide_step,
    retry_delay,
)
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.store import NEW, Stat
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.system import SystemClock, system_world
from anabranch.runtime.world import World
from tests.metadata_contract import read
from tests.metadata_faults import Gated, impatient_world

PATH = "/locks/a"


def record(value: bytes, *, mine: bool) -> tuple[bytes, Stat]:
    return value, Stat(PATH, 5, 0, 0, ephemeral=True, created_by_self=mine, first_version=True)


@pytest.mark.parametrize(
    ("found", "step"),
    [
        (None, Create()),
        (record(b"me", mine=True), Keep()),
        (record(b"old name", mine=True), Rename(5)),
        (record(b"me", mine=False), EndEarlierLife(5)),
        (record(b"them", mine=False), Wait(b"them")),
    ],
)
def test_what_a_candidate_does_about_what_it_finds(
    found: tuple[bytes, Stat] | None, step: Step
) -> None:
    assert decide_step(found, b"me") == step


def test_retries_wait_longer_up_to_a_bound(tmp_path: Path) -> None:
    world = system_world(tmp_path)
    assert retry_delay(0, world) <= 0.05
    assert LAST_RETRY_SECONDS / 2 <= retry_delay(1000, world) <= LAST_RETRY_SECONDS


async def turns(count: int = 50) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Setting:
    def __init__(self, directory: Path) -> None:
        self.world: World = impatient_world(directory)
        self.tree = MemoryTree(SystemClock())
        self.states: dict[bytes, list[LockState]] = {}

    def candidate(self, value: bytes) -> tuple[TreeSession, Lock]:
        session = self.tree.open_session()
        states = self.states.setdefault(value, [])
        return session, Lock(session, PATH, value, self.world, states.append)


def test_one_holds_and_the_other_waits_for_it_to_go(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        (_, one), (_, two) = s.candidate(b"one"), s.candidate(b"two")
        await one.acquire()
        assert not await two.try_acquire()
        waiting = asyncio.create_task(two.acquire())
        await turns()
        assert two.state == HeldBy(b"one")
        assert not waiting.done()
        await one.release()
        await waiting
        assert s.states == {
            b"one": [Held(), Unheld()],
            b"two": [HeldBy(b"one"), Held()],
        }

    asyncio.run(scenario())


def test_a_lost_session_takes_the_lock_on_the_spot(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"one")
        await lock.acquire()
        lost = asyncio.create_task(lock.lost())
        await turns()
        s.tree.expire(session)
        assert not lock.is_held  # before any other task ran
        await lost
        again = asyncio.create_task(lock.acquire())
        await turns()
        assert not lock.is_held
        s.tree.reconnect(session)
        await again
        assert await read(session, PATH) == b"one"

    asyncio.run(scenario())


def test_a_lost_connection_does_not_take_the_lock(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"one")
        await lock.acquire()
        lost = asyncio.create_task(lock.lost())
        s.tree.disconnect(session)
        await turns()
        assert lock.is_held
        s.tree.reconnect(session)
        await turns()
        assert lock.is_held
        assert not lost.done()
        lost.cancel()

    asyncio.run(scenario())


def test_who_was_ended_while_out_of_reach_learns_it_on_return(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        (session, one), (_, two) = s.candidate(b"one"), s.candidate(b"two")
        await one.acquire()
        s.tree.disconnect(session)
        s.tree.expire(session)
        await two.acquire()
        assert one.is_held  # the zombie: locks cannot help, fencing must
        s.tree.reconnect(session)
        assert not one.is_held
        assert not await one.try_acquire()
        assert one.state == HeldBy(b"two")

    asyncio.run(scenario())


def test_an_earlier_life_is_removed(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        _, before = s.candidate(b"one")
        await before.acquire()
        session, after = s.candidate(b"one")
        await after.acquire()
        found = await session.get(PATH)
        assert found is not None
        assert found[1].created_by_self
        await before.lost()

    asyncio.run(scenario())


def test_our_record_under_another_value_is_renamed(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"new name")
        await session.put(PATH, b"old name", NEW, ephemeral=True)
        await lock.acquire()
        assert await read(session, PATH) == b"new name"

    asyncio.run(scenario())


def test_a_record_that_somebody_deleted_is_missed(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        _, lock = s.candidate(b"one")
        await lock.acquire()
        lost = asyncio.create_task(lock.lost())
        await turns()
        await s.tree.open_session().delete(PATH)
        await lost
        assert lock.state == Unheld()
        await lock.acquire()

    asyncio.run(scenario())


def test_release_removes_what_a_cancelled_acquire_left(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"one")
        acquiring = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        assert not lock.is_held
        assert await session.exists(PATH)
        await lock.release()
        assert not await session.exists(PATH)
        await lock.release()

    asyncio.run(scenario())


def test_release_waits_for_a_put_that_was_abandoned_on_its_way_to_disk(tmp_path: Path) -> None:
    async def scenario() -> None:
        world = impatient_world(tmp_path)
        store = (await SqliteTree.open("a.db", world)).open_session()
        lock = Lock(store, PATH, b"one", world)
        acquiring = asyncio.create_task(lock.acquire())
        await asyncio.sleep(0)
        acquiring.cancel()
        await asyncio.gather(acquiring, return_exceptions=True)
        await lock.release()
        await store.put("/later", b"", NEW)
        assert not await store.exists(PATH)
        await store.close()

    asyncio.run(scenario())


def test_an_answer_from_before_the_session_ended_is_worth_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session = s.tree.open_session()
        gated = Gated(session, "put")
        lock = Lock(gated, PATH, b"one", s.world)
        gated.gate.clear()
        acquiring = asyncio.create_task(lock.acquire())
        await turns()
        assert gated.calls == 1  # the record is ours, we have not heard of it yet
        s.tree.expire(session)
        gated.gate.set()
        await turns()
        assert not lock.is_held
        assert not acquiring.done()
        s.tree.reconnect(session)
        await acquiring
        assert await read(session, PATH) == b"one"

    asyncio.run(scenario())


def test_release_leaves_the_lock_of_another_alone(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        (session, one), (_, two) = s.candidate(b"one"), s.candidate(b"two")
        await one.acquire()
        s.tree.expire(session)
        s.tree.reconnect(session)
        await two.acquire()
        await one.release()
        assert two.is_held
        assert await read(session, PATH) == b"two"

    asyncio.run(scenario())


def test_a_closed_store_ends_the_wait(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"one")
        await session.close()
        with pytest.raises(errors.Closed):
            await lock.acquire()

    asyncio.run(scenario())


def test_a_closed_lock_listens_no_more(tmp_path: Path) -> None:
    async def scenario() -> None:
        s = Setting(tmp_path)
        session, lock = s.candidate(b"one")
        lock.close()
        assert len(session._watches) == 0

    asyncio.run(scenario())
