"""Election under random faults: numbers only grow, and once things calm down exactly one leads."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import hypothesis.strategies as st
from hypothesis import given, settings

from anabranch.metadata.election import Election, Following, LeaderWatch, Leading, Role
from anabranch.metadata.memory import MemoryTree
from anabranch.metadata.records import epoch_of
from anabranch.metadata.tree_session import State, TreeSession
from anabranch.runtime.system import SystemClock
from tests.metadata_contract import read
from tests.metadata_faults import Flaky, impatient_world

PATH = "/controller"
CANDIDATES = 3

faults = st.tuples(
    st.sampled_from(["disconnect", "give_up", "expire", "reconnect", "delete lock", "wait"]),
    st.integers(0, CANDIDATES - 1),
    st.integers(0, 30),  # turns of the loop before the next fault
)


class Candidate:
    def __init__(self, tree: MemoryTree, number: int, random: Random, terms: list[int]) -> None:
        self.value = b"broker-%d" % number
        self.session: TreeSession = tree.open_session()
        self.store = Flaky(self.session, random, failures=0.1)
        self.election = Election(self.store, PATH, self.value, impatient_world(Path()))
        self._terms = terms
        self.election.listen(self.changed)
        self.task = asyncio.create_task(self.election.run())

    def changed(self, role: Role) -> None:
        if isinstance(role, Leading):
            assert self.session.state is not State.LOST
            self._terms.append(role.epoch)


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def play(story: list[tuple[str, int, int]], seed: int) -> None:
    random = Random(seed)
    tree = MemoryTree(SystemClock())
    terms: list[int] = []
    standing = [Candidate(tree, n, random, terms) for n in range(CANDIDATES)]
    watch = LeaderWatch(tree.open_session(), PATH)
    await watch.start()
    admin = tree.open_session()
    for fault, number, pause in story:
        session = standing[number].session
        match fault:
            case "disconnect":
                tree.disconnect(session)
            case "give_up":
                tree.give_up(session)
            case "expire":
                tree.expire(session)
            case "reconnect":
                tree.reconnect(session)
            case "delete lock":
                await admin.delete_recursive(PATH)
        await turns(pause)
        check_no_two_leaders_in_reach(standing, terms)
    await calm_down(tree, standing)
    try:
        await check_calm(standing, watch, terms)
    finally:
        for candidate in standing:
            candidate.task.cancel()
        await asyncio.gather(*(c.task for c in standing), return_exceptions=True)


def check_no_two_leaders_in_reach(standing: list[Candidate], terms: list[int]) -> None:
    """Whoever lost its session knows it at once; and no number is ever given twice."""
    assert terms == sorted(set(terms))
    for candidate in standing:
        if candidate.session.state is State.LOST:
            assert not isinstance(candidate.election.role, Leading)


async def calm_down(tree: MemoryTree, standing: list[Candidate]) -> None:
    for candidate in standing:
        candidate.store.failures = 0.0
        if candidate.session.state is not State.CONNECTED:
            tree.reconnect(candidate.session)
    await turns(300)


async def check_calm(standing: list[Candidate], watch: LeaderWatch, terms: list[int]) -> None:
    assert not any(candidate.task.done() for candidate in standing)
    leaders = [c for c in standing if isinstance(c.election.role, Leading)]
    assert len(leaders) == 1
    leader = leaders[0]
    assert leader.election.require_epoch() == terms[-1] == max(terms)
    followers = [c for c in standing if c is not leader]
    assert all(c.election.role == Following(leader.value) for c in followers)
    assert watch.leader == leader.value
    assert int(await read(leader.session, epoch_of(PATH)) or b"") >= terms[-1]


@settings(max_examples=150, deadline=None)
@given(st.lists(faults, max_size=25), st.integers(0, 2**32))
def test_numbers_only_grow_and_calm_brings_one_leader(
    story: list[tuple[str, int, int]], seed: int
) -> None:
    asyncio.run(play(story, seed))
