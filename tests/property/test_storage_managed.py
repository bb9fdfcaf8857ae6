"""A managed ledger against a model, through crashes, takeovers and failing commits.

The model knows only what was answered, and what was asked for without an answer. The laws: what
was answered is there, in order, at its position; what is there was asked for; an acknowledgement
with a receipt stays acknowledged; nothing unacknowledged is trimmed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import hypothesis.strategies as st
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
from anabranch.storage.maintenance import maintain
from anabranch.storage.managed_ledger import ManagedLedger
from anabranch.storage.spans import LATEST
from anabranch.storage.trimming import LedgerPolicy
from anabranch.topics.positions import EARLIEST, Position
from tests.managed_world import ManagedWorld, draft, read_entries, small

T = TypeVar("T")
CURSORS = ("a", "b")


class ManagedLedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = ManagedWorld()
        self.process = self.world.process()
        self.zombies: list[ManagedLedger] = []
        self.texts = 0
        # By position, everything answered; and texts whose fate was never told.
        self.answered: dict[Position, str] = {}
        self.unknown: set[str] = set()
        self.trimmed_to = EARLIEST
        self.is_sealed = False
        # By cursor: acknowledged with a receipt, and acknowledged since without one.
        self.acked: dict[str, set[Position]] = {}
        self.loose: dict[str, set[Position]] = {}

    def wait(self, awaitable: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(awaitable)

    def teardown(self) -> None:
        async def end() -> None:
            for managed in (*self.zombies, self.managed):
                managed.abandon("the test is over")
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self.wait(end())
        self.loop.close()

    @initialize()
    def begin(self) -> None:
        self.managed = self.wait(self.process.load(small(max_entries=4, cursor_bytes=200)))

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

    @precondition(lambda self: not self.is_sealed)
    @rule(size=st.integers(1, 3), kept=st.integers(0, 3))
    def append_with_a_failing_commit(self, size: int, kept: int) -> None:
        async def act() -> None:
            batch = self.new_texts(size)
            # A ledger must be open, or the failure would hit nothing.
            opener = self.new_texts(1)
            self.answered[await self.managed.append([draft(opener[0])])] = opener[0]
            self.process.store.fail_next_commit(kept_entries=kept)
            self.unknown |= set(batch)
            try:
                first = await self.managed.append([draft(text) for text in batch])
            except Unavailable:
                return
            # The ledger was just rolling over: the failure met nothing of ours yet.
            for number, text in enumerate(batch):
                self.answered[Position(first.ledger, first.entry + number)] = text

        self.wait(act())
        self.wait(self.settle())

    async def settle(self) -> None:
        """Let a recovery that is under way finish; make the record certain."""
        for _ in range(50):
            await asyncio.sleep(0)

    @rule()
    def seal(self) -> None:
        # Seldom, or every run would end here early.
        if self.texts > 25:
            self.wait(self.managed.seal())
            self.is_sealed = True

    # Cursors

    @rule(name=st.sampled_from(CURSORS), is_earliest=st.booleans())
    def open_cursor(self, name: str, is_earliest: bool) -> None:
        is_new = name not in self.acked
        self.wait(self.managed.open_cursor(name, EARLIEST if is_earliest else LATEST))
        if is_new:
            present = [] if is_earliest else list(self.present())
            self.acked[name], self.loose[name] = set(present), set()

    @rule(name=st.sampled_from(CURSORS))
    def delete_cursor(self, name: str) -> None:
        self.wait(self.managed.delete_cursor(name))
        self.acked.pop(name, None)
        self.loose.pop(name, None)

    @precondition(lambda self: self.acked and self.answered)
    @rule(data=st.data(), is_confirmed=st.booleans())
    def acknowledge(self, data: st.DataObject, is_confirmed: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.acked)))
        some = data.draw(st.lists(st.sampled_from(sorted(self.answered)), max_size=6))
        cursor = self.managed.cursors.get(name)
        assert cursor is not None

        async def act() -> None:
            cursor.acknowledge(some)
            self.loose[name] |= set(some)
            if is_confirmed:
                await cursor.persist()
                self.note_persisted()

        self.wait(act())

    @precondition(lambda self: self.acked and self.answered)
    @rule(data=st.data(), is_confirmed=st.booleans())
    def acknowledge_cumulatively(self, data: st.DataObject, is_confirmed: bool) -> None:
        name = data.draw(st.sampled_from(sorted(self.acked)))
        position = data.draw(st.sampled_from(sorted(self.answered)))
        cursor = self.managed.cursors.get(name)
        assert cursor is not None

        async def act() -> None:
            cursor.acknowledge_cumulative(position)
            self.loose[name] |= {p for p in self.present() if p <= position}
            if is_confirmed:
                await cursor.persist()
                self.note_persisted()

        self.wait(act())

    @precondition(lambda self: self.acked and self.answered)
    @rule(data=st.data())
    def seek(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.acked)))
        position = data.draw(st.sampled_from([EARLIEST, LATEST, *sorted(self.answered)]))
        cursor = self.managed.cursors.get(name)
        assert cursor is not None
        self.wait(cursor.seek(position))
        self.note_persisted()
        self.acked[name] = {p for p in self.present() if p < position}

    def note_persisted(self) -> None:
        for name, loose in self.loose.items():
            self.acked[name] |= loose
            loose.clear()

    # Time

    @rule(retention_minutes=st.sampled_from([0, 0, 1, -1]))
    def trim(self, retention_minutes: int) -> None:
        async def act() -> None:
            await self.managed.set_policy(LedgerPolicy(retention_minutes=retention_minutes))
            needed = [p for p in self.present() if any(p not in a for a in self.acked.values())]
            upkeep = await maintain(self.managed, self.world.clock.now_ms)
            assert not {p.ledger for p in needed} & set(upkeep.trimmed)
            self.trimmed_to = self.managed.record.trimmed_to

        self.wait(act())

    @rule(seconds=st.integers(1, 3600))
    def time_passes(self, seconds: int) -> None:
        self.world.clock.now_ms += 1000 * seconds

    # Failures

    @rule(kept=st.integers(0, 3), pending=st.integers(0, 3))
    def crash(self, kept: int, pending: int) -> None:
        """The process dies with appends under way; some of them may have reached the disk."""

        async def act() -> None:
            self.process.store.pause()
            lost = []
            if pending and not self.is_sealed:
                batch = self.new_texts(pending)
                lost = [self.managed.submit([draft(text)]) for text in batch]
                self.unknown |= set(batch)
                await self.settle()
            self.process.crash(kept_entries=kept)
            for result in await asyncio.gather(*lost, return_exceptions=True):
                assert isinstance(result, Fenced)
            self.process = self.world.process()
            await self.take_over()

        self.wait(act())

    @rule()
    def another_takes_over(self) -> None:
        async def act() -> None:
            zombie = self.managed
            self.process = self.world.process()
            await self.take_over()
            await self.try_as_a_zombie(zombie)

        self.wait(act())

    async def try_as_a_zombie(self, zombie: ManagedLedger) -> None:
        handles = zombie.cursors.all()
        try:
            await zombie.append([draft("zombie")])
        except (Fenced, Closed) as error:
            assert isinstance(error, Fenced) or self.is_sealed
        else:
            raise AssertionError("a zombie was answered")
        for cursor in handles:
            try:
                await cursor.seek(EARLIEST)
            except Fenced:
                continue
            raise AssertionError("a zombie moved a cursor")
        zombie.abandon("it knows by now")

    @rule()
    def unload(self) -> None:
        async def act() -> None:
            await self.managed.unload()
            self.note_persisted()
            await self.take_over()

        self.wait(act())

    async def take_over(self) -> None:
        self.managed = await self.process.load(small(max_entries=4, cursor_bytes=200))
        for loose in self.loose.values():
            loose.clear()
        # What was acknowledged without a receipt may have been written or not.
        for name, acked in self.acked.items():
            cursor = self.managed.cursors.get(name)
            assert cursor is not None, f"cursor {name} is gone"
            assert not [p for p in acked if not cursor.is_acked(p)]
            acked |= {p for p in self.present() if cursor.is_acked(p)}

    @precondition(lambda self: not self.is_sealed)
    @rule(is_applied=st.booleans(), size=st.integers(1, 6))
    def roll_over_with_a_lost_answer(self, is_applied: bool, size: int) -> None:
        async def act() -> None:
            batch = self.new_texts(size)
            self.world.records.fail_next_save(is_applied=is_applied)
            for text in batch:
                self.unknown.add(text)
                try:
                    self.answered[await self.managed.append([draft(text)])] = text
                except Unavailable:
                    continue
            await self.settle()
            self.world.records.fail_nothing()

        self.wait(act())

    # Laws

    def present(self) -> dict[Position, str]:
        """Everything stored, as the owner sees it."""
        return {
            Position(entry.ledger, entry.entry): bytes(entry.body).decode()
            for entry in self.loop_safe(read_entries(self.managed))
        }

    def loop_safe(self, awaitable: Coroutine[Any, Any, T]) -> T:
        """Reading in memory needs no loop: each step only yields."""
        try:
            while True:
                awaitable.send(None)
        except StopIteration as stop:
            result: T = stop.value
            return result

    @invariant()
    def everything_answered_is_there_and_nothing_is_invented(self) -> None:
        if not hasattr(self, "managed"):
            return
        present = self.present()
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
        present = self.present()
        assert self.managed.cursors.names == sorted(self.acked)
        for name, acked in self.acked.items():
            cursor = self.managed.cursors.get(name)
            assert cursor is not None
            done = {p for p in present if p in acked or p in self.loose[name]}
            assert {p for p in present if cursor.is_acked(p)} == done
            assert cursor.backlog == len(present) - len(done)

    @invariant()
    def no_ledger_is_forgotten(self) -> None:
        """Unreferenced ledgers exist for a while, but garbage collection knows them all."""
        if not hasattr(self, "managed"):
            return
        referenced = referenced_ledgers(self.managed.record)
        garbage = self.loop_safe(
            find_garbage(self.process.store, referenced, self.world.clock.now_ms, min_age_ms=0)
        )
        assert set(self.world.disk.ledgers) == referenced | set(garbage)


ManagedLedgerMachine.TestCase.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None
)
TestManagedLedger = ManagedLedgerMachine.TestCase
