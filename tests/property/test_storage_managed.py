"""A managed ledger against a model, through crashes, takeovers and failing commits.

The model knows only what was answered, and what was asked for without an answer. The laws: what
was answered is there, in order, at its position; what is there was asked for; an acknowledgement
with a receipt stays acknowledged; nothing unacknowledged is trimmed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from anabranch.errors import Closed, Fenced, Unavailable
from anabranch.storage.garbage import find_garbage, referenced_ledgers
from anabranch.storage.ledger import LedgerStore
from anabranch.storage.maintenance import maintain
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.memory_ledger import MemoryLedgerStore
from anabranch.storage.memory_records import MemoryRecords
from anabranch.storage.spans import LATEST
from anabranch.storage.trimming import LedgerPolicy
from anabranch.topics.positions import EARLIEST, Position
from tests.ledger_engines import FileEngine
from tests.managed_world import (
    ManagedWorld,
    ManualClock,
    Process,
    draft,
    load,
    load_until_won,
    read_entries,
    small,
    turns,
)

T = TypeVar("T")
CURSORS = ("a", "b")
CONFIG = small(max_entries=4, cursor_bytes=200)
# Which of the entries there are: a kill of real files leaves more of them or fewer, as it comes,
# and what a test draws may not depend on that.
choices = st.integers(0, 10_000)
names = st.sampled_from(CURSORS)


class MemoryHost:
    """Owners with a process each, on a disk in memory that can be made to fail."""

    can_fail = True

    def __init__(self) -> None:
        self.world = ManagedWorld()
        self.records = self.world.records
        self.clock = self.world.clock
        self.process: Process = self.world.process()

    @property
    def store(self) -> MemoryLedgerStore:
        return self.process.store

    async def load(self) -> ManagedLedger:
        return await self.process.load(CONFIG)

    async def load_elsewhere(self) -> ManagedLedger:
        """As another owner would, with the old one still at work."""
        self.process = self.world.process()
        return await self.load()

    def hold(self) -> None:
        """What is submitted from here on is still on its way when the crash comes."""
        self.process.store.pause()

    async def crash(self, managed: ManagedLedger, kept: int) -> None:
        self.process.crash(kept_entries=kept)
        self.process = self.world.process()

    async def close(self) -> None:
        pass


class FileHost:
    """Owners one after another in one process, on real files; a crash is a kill."""

    can_fail = False

    def __init__(self) -> None:
        self.directory = TemporaryDirectory()
        self.engine = FileEngine(Path(self.directory.name))
        self.records = MemoryRecords()
        self.clock = ManualClock()

    @property
    def store(self) -> LedgerStore:
        assert self.engine.store is not None
        return self.engine.store

    async def load(self) -> ManagedLedger:
        return await load(await self.engine.start(), self.records, self.clock, "owner", CONFIG)

    async def load_elsewhere(self) -> ManagedLedger:
        return await self.load()

    def hold(self) -> None:
        pass

    async def crash(self, managed: ManagedLedger, kept: int) -> None:
        managed.abandon("its process was killed")
        await self.engine.kill_and_restart()

    async def close(self) -> None:
        await self.engine.shut_down()
        self.directory.cleanup()


class ManagedLedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.host: MemoryHost | FileHost = self.make_host()
        self.texts = 0
        # By position, everything answered; and texts whose fate was never told.
        self.answered: dict[Position, str] = {}
        self.unknown: set[str] = set()
        self.trimmed_to = EARLIEST
        self.is_sealed = False
        # By cursor: acknowledged with a receipt, and acknowledged since without one.
        self.acked: dict[str, set[Position]] = {}
        self.loose: dict[str, set[Position]] = {}
        # What is left of batches acknowledged in part, always with a receipt.
        self.partial: dict[str, dict[Position, int]] = {name: {} for name in CURSORS}

    def make_host(self) -> MemoryHost | FileHost:
        return MemoryHost()

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(awaitable)

    def teardown(self) -> None:
        async def end() -> None:
            if hasattr(self, "managed"):
                self.managed.abandon("the test is over")
            await turns()
            # Before anything is cancelled: an engine without its tasks could not close.
            await self.host.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.wait(end())
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        self.managed = self.wait(self.host.load())

    # Entries

    def new_texts(self, count: int) -> list[str]:
        self.texts += count
        return [f"m{self.texts - n}" for n in reversed(range(count))]

    @precondition(lambda self: not self.is_sealed)
    @rule(sizes=st.lists(st.integers(1, 3), min_size=1, max_size=4))
    def append(self, sizes: list[int]) -> None:
        async def act() -> None:
            batches = [self.new_texts(size) for size in sizes]
            futures = [self.managed.submit([draft(text) for text in batch]) for batch in batches]
            for batch, first in zip(batches, await asyncio.gather(*futures), strict=True):
                for number, text in enumerate(batch):
                    self.answered[Position(first.ledger, first.entry + number)] = text

        self.wait(act())

    @precondition(lambda self: not self.is_sealed and self.host.can_fail)
    @rule(size=st.integers(1, 3), kept=st.integers(0, 3))
    def append_with_a_failing_commit(self, size: int, kept: int) -> None:
        async def act() -> None:
            batch = self.new_texts(size)
            # A ledger must be open, or the failure would hit nothing.
            opener = self.new_texts(1)
            self.answered[await self.managed.append([draft(opener[0])])] = opener[0]
            assert isinstance(self.host, MemoryHost)
            self.host.store.fail_next_commit(kept_entries=kept)
            self.unknown |= set(batch)
            with contextlib.suppress(Unavailable):
                first = await self.managed.append([draft(text) for text in batch])
                # The ledger was just rolling over: the failure met nothing of ours yet.
                for number, text in enumerate(batch):
                    self.answered[Position(first.ledger, first.entry + number)] = text
            await turns()

        self.wait(act())

    @rule()
    def seal(self) -> None:
        # Seldom, or every run would end here early.
        if self.texts > 25:
            self.wait(self.managed.seal())
            self.is_sealed = True

    # Cursors

    @rule(name=names, is_earliest=st.booleans())
    def open_cursor(self, name: str, is_earliest: bool) -> None:
        is_new = name not in self.acked
        self.wait(self.managed.open_cursor(name, EARLIEST if is_earliest else LATEST))
        if is_new:
            present = [] if is_earliest else list(self.wait(self.present()))
            self.acked[name], self.loose[name] = set(present), set()
            self.note_persisted()  # one write takes along what all the others owe

    @rule(name=names)
    def delete_cursor(self, name: str) -> None:
        self.wait(self.managed.delete_cursor(name))
        self.note_persisted()
        self.acked.pop(name, None)
        self.loose.pop(name, None)
        self.partial[name].clear()

    def chosen(self, choice: int) -> Position:
        """An entry that was answered; if there is none, one that there never was."""
        known = sorted(self.answered)
        return known[choice % len(known)] if known else Position(0, 0)

    @rule(name=names, some_choices=st.lists(choices, max_size=6), is_confirmed=st.booleans())
    def acknowledge(self, name: str, some_choices: list[int], is_confirmed: bool) -> None:
        cursor = self.managed.cursors.get(name)
        if cursor is None:
            return
        some = [self.chosen(choice) for choice in some_choices]

        async def act() -> None:
            cursor.acknowledge(some)
            self.loose[name] |= set(some) & set(self.answered)
            if is_confirmed:
                await cursor.persist()
                self.note_persisted()

        self.wait(act())

    @rule(name=names, choice=choices, is_confirmed=st.booleans())
    def acknowledge_cumulatively(self, name: str, choice: int, is_confirmed: bool) -> None:
        cursor = self.managed.cursors.get(name)
        if cursor is None or not self.answered:
            return
        position = self.chosen(choice)

        async def act() -> None:
            cursor.acknowledge_cumulative(position)
            self.loose[name] |= {p for p in await self.present() if p <= position}
            if is_confirmed:
                await cursor.persist()
                self.note_persisted()

        self.wait(act())

    @rule(name=names, goal=st.sampled_from([EARLIEST, LATEST]) | choices)
    def seek(self, name: str, goal: Position | int) -> None:
        cursor = self.managed.cursors.get(name)
        if cursor is None:
            return
        position = self.chosen(goal) if isinstance(goal, int) else goal
        self.wait(cursor.seek(position))
        self.note_persisted()
        self.partial[name].clear()
        self.acked[name] = {p for p in self.wait(self.present()) if p < position}

    @rule(name=names, choice=choices, unacked=st.integers(0, 7))
    def acknowledge_part_of_a_batch(self, name: str, choice: int, unacked: int) -> None:
        cursor = self.managed.cursors.get(name)
        if cursor is None or not self.answered:
            return
        position = self.chosen(choice)
        left = self.partial[name].get(position, 7) & unacked

        async def act() -> None:
            is_new = not cursor.is_acked(position)
            assert cursor.acknowledge_batch(position, [unacked]) == (is_new and left == 0)
            if is_new:
                self.partial[name][position] = left
                self.loose[name] |= {position} if left == 0 else set()
            await cursor.persist()
            self.note_persisted()

        self.wait(act())

    def note_persisted(self) -> None:
        for name, loose in self.loose.items():
            self.acked[name] |= loose
            loose.clear()

    # Time

    @rule(retention_minutes=st.sampled_from([0, 0, 1, -1]))
    def trim(self, retention_minutes: int) -> None:
        async def act() -> None:
            await self.managed.set_policy(LedgerPolicy(retention_minutes=retention_minutes))
            present = await self.present()
            needed = [p for p in present if any(p not in a for a in self.acked.values())]
            upkeep = await maintain(self.managed, self.host.clock.now_ms)
            assert not {p.ledger for p in needed} & set(upkeep.trimmed)
            self.trimmed_to = self.managed.record.trimmed_to

        self.wait(act())

    @rule(seconds=st.integers(1, 3600))
    def time_passes(self, seconds: int) -> None:
        self.host.clock.now_ms += 1000 * seconds

    # Failures

    @rule(kept=st.integers(0, 3), pending=st.integers(0, 3))
    def crash(self, kept: int, pending: int) -> None:
        """The process dies with appends under way; some of them may have reached the disk."""

        async def act() -> None:
            self.host.hold()
            batch = self.new_texts(pending) if not self.is_sealed else []
            lost = [self.managed.submit([draft(text)]) for text in batch]
            self.unknown |= set(batch)
            await turns()
            await self.host.crash(self.managed, kept)
            results = await asyncio.gather(*lost, return_exceptions=True)
            for text, result in zip(batch, results, strict=True):
                if isinstance(result, Position):
                    self.answered[result] = text
                else:
                    assert isinstance(result, Fenced | Unavailable), result
            self.managed = await self.host.load()
            await self.check_takeover()

        self.wait(act())

    @rule(pending=st.integers(0, 2))
    def another_takes_over(self, pending: int) -> None:
        """While appends of the old owner are under way, which it then learns were fenced."""

        async def act() -> None:
            zombie = self.managed
            old_host_store = self.host.store
            self.host.hold()
            batch = self.new_texts(pending) if not self.is_sealed else []
            lost = [zombie.submit([draft(text)]) for text in batch]
            self.unknown |= set(batch)
            self.managed = await load_until_won(self.host.load_elsewhere)
            if isinstance(old_host_store, MemoryLedgerStore):
                old_host_store.resume()
            results = await asyncio.gather(*lost, return_exceptions=True)
            for text, result in zip(batch, results, strict=True):
                if isinstance(result, Position):
                    self.answered[result] = text
            await self.try_as_a_zombie(zombie)
            await self.check_takeover()

        self.wait(act())

    async def try_as_a_zombie(self, zombie: ManagedLedger) -> None:
        with pytest.raises((Fenced, Closed) if self.is_sealed else Fenced):
            await zombie.append([draft("zombie")])
        for cursor in zombie.cursors.all():
            with pytest.raises(Fenced):
                await cursor.seek(EARLIEST)
        zombie.abandon("it knows by now")

    @rule()
    def unload(self) -> None:
        async def act() -> None:
            await self.managed.unload()
            self.note_persisted()
            self.managed = await self.host.load()
            await self.check_takeover()

        self.wait(act())

    async def check_takeover(self) -> None:
        for loose in self.loose.values():
            loose.clear()
        # What was acknowledged without a receipt may have been written or not.
        for name, acked in self.acked.items():
            cursor = self.managed.cursors.get(name)
            assert cursor is not None, f"cursor {name} is gone"
            assert not [p for p in acked if not cursor.is_acked(p)]
            acked |= {p for p in await self.present() if cursor.is_acked(p)}

    @precondition(lambda self: not self.is_sealed)
    @rule(is_applied=st.booleans(), size=st.integers(1, 6))
    def roll_over_with_a_lost_answer(self, is_applied: bool, size: int) -> None:
        async def act() -> None:
            batch = self.new_texts(size)
            self.host.records.fail_next_save(is_applied=is_applied)
            for text in batch:
                self.unknown.add(text)
                try:
                    self.answered[await self.managed.append([draft(text)])] = text
                except Unavailable:
                    continue
            await turns()
            self.host.records.fail_nothing()

        self.wait(act())

    # Laws

    async def present(self) -> dict[Position, str]:
        """Everything stored, as the owner sees it."""
        return {
            Position(entry.ledger, entry.entry): bytes(entry.body).decode()
            for entry in await read_entries(self.managed)
        }

    @invariant()
    def everything_answered_is_there_and_nothing_is_invented(self) -> None:
        if not hasattr(self, "managed"):
            return
        present = self.wait(self.present())
        assert list(present) == sorted(present)
        self.answered = {p: t for p, t in self.answered.items() if p > self.trimmed_to}
        for position, text in self.answered.items():
            assert present.get(position) == text, position
        extra = {text for position, text in present.items() if position not in self.answered}
        assert extra <= self.unknown
        texts = list(present.values())
        assert len(texts) == len(set(texts)), "something was stored twice"

    @invariant()
    def cursors_say_what_was_acknowledged(self) -> None:
        if not hasattr(self, "managed"):
            return
        present = self.wait(self.present())
        assert self.managed.cursors.names == sorted(self.acked)
        for name, acked in self.acked.items():
            cursor = self.managed.cursors.get(name)
            assert cursor is not None
            done = {p for p in present if p in acked or p in self.loose[name]}
            assert {p for p in present if cursor.is_acked(p)} == done
            assert cursor.backlog == len(present) - len(done)
            for position, left in self.partial[name].items():
                if position in present and position not in done:
                    assert cursor.unacked_bits(position) == left

    @invariant()
    def no_ledger_is_forgotten(self) -> None:
        """Unreferenced ledgers exist for a while, but garbage collection knows them all."""
        if not hasattr(self, "managed"):
            return

        async def check() -> None:
            referenced = referenced_ledgers(self.managed.record)
            now_ms = self.host.clock.now_ms
            garbage = await find_garbage(self.host.store, referenced, now_ms, min_age_ms=0)
            assert {ledger async for ledger in self.host.store.ledgers()} == {
                *referenced,
                *garbage,
            }

        self.wait(check())


class ManagedLedgerOnFilesMachine(ManagedLedgerMachine):
    def make_host(self) -> MemoryHost | FileHost:
        return FileHost()


ManagedLedgerMachine.TestCase.settings = settings(
    max_examples=120, stateful_step_count=30, deadline=None
)
ManagedLedgerOnFilesMachine.TestCase.settings = settings(
    max_examples=12, stateful_step_count=25, deadline=None
)
TestManagedLedger = ManagedLedgerMachine.TestCase
TestManagedLedgerOnFiles = ManagedLedgerOnFilesMachine.TestCase
