from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random

import pytest

from anabranch.errors import Corrupt, Stale
from anabranch.metadata.election import (
    Election,
    Following,
    Leaderless,
    LeaderWatch,
    Leading,
    Role,
    next_epoch,
)
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.records import epoch_of
from anabranch.metadata.store import NEW
from anabranch.metadata.tree_session import TreeSession
from anabranch.runtime.system import SystemClock
from tests.metadata_contract import read
from tests.metadata_faults import Flaky, Gated, impatient_world

PATH = "/topics/t/n/x/controller"


async def turns(count: int = 100) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


class Candidate:
    def __init__(self, tree: MemoryTree, value: bytes, directory: Path) -> None:
        self.session: TreeSession = tree.open_session()
        self.election = Election(self.session, PATH, value, impatient_world(directory))
        self.roles: list[Role] = []
        self.election.listen(self.roles.append)
        self.task = asyncio.create_task(self.election.run())

    def role(self) -> Role:
        return self.election.role


@asynccontextmanager
async def candidates(
    directory: Path, tree: MemoryTree, *values: bytes
) -> AsyncIterator[list[Candidate]]:
    standing = [Candidate(tree, value, directory) for value in values]
    await turns()
    try:
        yield standing
    finally:
        for candidate in standing:
            candidate.task.cancel()
        await asyncio.gather(*(c.task for c in standing), return_exceptions=True)


def test_the_first_leads_and_the_others_know_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with candidates(tmp_path, MemoryTree(SystemClock()), b"one", b"two") as (one, two):
            assert one.roles == [Leaderless(), Leading(1)]
            assert two.roles == [Leaderless(), Following(b"one")]
            assert one.election.require_epoch() == 1
            with pytest.raises(Stale, match="one"):
                two.election.require_epoch()

    asyncio.run(scenario())


def test_every_term_has_a_larger_number(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        async with candidates(tmp_path, tree, b"one", b"two") as (one, two):
            tree.expire(one.session)
            assert one.role() == Leaderless()  # at once
            with pytest.raises(Stale, match="no leader"):
                one.election.require_epoch()
            await turns()
            assert two.role() == Leading(2)
            tree.reconnect(one.session)
            await turns()
            assert one.role() == Following(b"two")
            tree.expire(two.session)
            await turns()
            assert one.role() == Leading(3)

    asyncio.run(scenario())


def test_resigning_hands_over(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        async with candidates(tmp_path, tree, b"one", b"two") as (one, two):
            one.task.cancel()
            await one.election.resign()
            assert one.role() == Leaderless()
            await turns()
            assert two.role() == Leading(2)
            assert one.role() == Leaderless()

    asyncio.run(scenario())


def test_a_leader_whose_record_was_deleted_begins_a_new_term(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        async with candidates(tmp_path, tree, b"one") as (one,):
            await tree.open_session().delete(PATH)
            await turns()
            assert one.roles == [Leaderless(), Leading(1), Leaderless(), Leading(2)]

    asyncio.run(scenario())


def test_without_a_number_nobody_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        await tree.open_session().put(epoch_of(PATH), b"seven", NEW)
        async with candidates(tmp_path, tree, b"one") as (one,):
            assert one.role() == Leaderless()
            with pytest.raises(Corrupt, match="seven"):
                await one.task

    asyncio.run(scenario())


def test_numbers_go_on_from_what_is_stored_and_are_never_shared() -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        # Answers take different times, so that reads and writes of the three interleave.
        sessions = [Flaky(tree.open_session(), Random(n), failures=0.0) for n in range(3)]
        await sessions[0].put(epoch_of(PATH), b"41", NEW)
        numbers = await asyncio.gather(*(next_epoch(s, PATH) for s in sessions for _ in range(5)))
        assert sorted(numbers) == list(range(42, 57))
        assert await read(sessions[0], epoch_of(PATH)) == b"56"

    asyncio.run(scenario())


def test_whoever_lost_the_lock_while_writing_its_number_does_not_lead(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        world = impatient_world(tmp_path)
        gated = Gated(tree.open_session(), "put")
        election = Election(gated, PATH, b"one", world)
        roles: list[Role] = []
        election.listen(roles.append)
        standing = asyncio.create_task(election.run())
        await gated.reached(1)
        gated.gate.clear()
        await gated.reached(2)  # the second put is the number's
        usurper = tree.open_session()
        await usurper.delete(PATH)
        await usurper.put(PATH, b"two", NEW, ephemeral=True)
        gated.gate.set()
        await turns()
        assert roles == [Leaderless(), Following(b"two")]
        standing.cancel()

    asyncio.run(scenario())


def test_a_bystander_is_told_who_leads(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        session = tree.open_session()
        watch = LeaderWatch(session, PATH)
        told: list[bytes | None] = []
        watch.listen(told.append)
        await watch.start()
        async with candidates(tmp_path, tree, b"one", b"two") as (one, _):
            assert watch.leader == b"one"
            tree.disconnect(session)
            tree.expire(one.session)
            await turns()
            assert watch.leader == b"one"
            tree.reconnect(session)
            await turns()
            assert watch.leader == b"two"
            watch.close()
        assert told[0] is None
        assert told[-1] == b"two"
        assert len(session._watches) == 0

    asyncio.run(scenario())


def test_a_listener_that_raises_does_not_stop_the_election(tmp_path: Path) -> None:
    async def scenario() -> None:
        tree = MemoryTree(SystemClock())
        async with candidates(tmp_path, tree, b"one", b"two") as (one, two):

            def fail(role: Role) -> None:
                if isinstance(role, Leading):
                    raise RuntimeError("listener bug")

            two.election.listen(fail)
            tree.expire(one.session)
            await turns()
            assert two.role() == Leading(2)

    asyncio.run(scenario())
