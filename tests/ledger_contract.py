"""The contract of a ledger engine, as tests that every engine must pass.

An engine's test module derives a `Test…` class from `LedgerContract` and has a fixture `engine`
that gives an `EngineUnderTest`. Rules are those of anabranch/storage/ledger.py; what it leaves
open (how dense the ids of ledgers are, how many entries one read returns) no test looks at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from random import Random
from typing import Any, Protocol

import pytest
from crc32c import crc32c

from anabranch.errors import Closed, Fenced, NotFound, Refused, Stale
from anabranch.storage.ledger import (
    Draft,
    Entry,
    LedgerEnd,
    LedgerReader,
    LedgerStore,
    LedgerWriter,
)


class EngineUnderTest(Protocol):
    survives_restart: bool

    async def start(self) -> LedgerStore:
        """The one store of this engine, started if it is not."""
        ...

    async def kill_and_restart(self) -> LedgerStore:
        """Nothing is closed first: the process is gone, and another takes its place."""
        ...

    async def shut_down(self) -> None: ...


def draft(body: bytes, *, time_ms: int = 0, messages: int = 1, prefix: int = 0) -> Draft:
    return Draft(body, crc32c(body[prefix:]), prefix, time_ms, messages)


def numbered(first: int, count: int, size: int = 100) -> list[Draft]:
    """Drafts that can be told apart: each says its number, again and again."""
    return [
        draft((b"%08d." % number * (size // 9 + 1))[:size], time_ms=number)
        for number in range(first, first + count)
    ]


async def read_all(
    reader: LedgerReader, first: int = 0, *, max_entries: int = 1000, max_bytes: int = 1 << 20
) -> list[Entry]:
    found: list[Entry] = []
    while some := await reader.read(
        first + len(found), max_entries=max_entries, max_bytes=max_bytes
    ):
        found += some
    return found


def check_holds(entries: Sequence[Entry], ledger: int, drafts: Sequence[Draft]) -> None:
    """Exactly these drafts, byte for byte, numbered without a gap."""
    assert [entry.entry for entry in entries] == list(range(len(drafts)))
    for entry, expected in zip(entries, drafts, strict=True):
        assert bytes(entry.body) == bytes(expected.body), entry.entry
        assert entry[0] == ledger
        assert entry[3:] == (expected.time_ms, expected.messages), entry.entry


def run(
    engine: EngineUnderTest, scenario: Callable[[LedgerStore], Coroutine[Any, Any, None]]
) -> None:
    async def whole() -> None:
        try:
            await scenario(await engine.start())
        finally:
            await engine.shut_down()

    asyncio.run(whole())


class LedgerContract:
    def test_entries_are_read_back_exactly_as_submitted(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            drafts = [
                draft(b""),
                draft(b"x"),
                draft(b"prefixed body", prefix=9, time_ms=1_700_000_000_000, messages=500),
                draft(bytes(range(256)) * 3, prefix=255, time_ms=2**40),
                draft(b"all prefix", prefix=10),
                draft(b"large" * 5_000, time_ms=3),
                draft(b"m" * 16_384, messages=2**31 - 1),
            ]
            assert await writer.append(drafts) == 0
            check_holds(await read_all(writer), writer.ledger, drafts)

        run(engine, scenario)

    def test_a_body_may_be_a_view_of_a_buffer(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            frame = bytearray(b"header" + b"payload" * 4_000)
            small = bytearray(b"header" + b"payload")
            drafts = [
                Draft(memoryview(buffer)[6:], crc32c(bytes(buffer[6:])))
                for buffer in (frame, small)
            ] + [Draft(small, crc32c(bytes(small)))]
            await writer.append(drafts)
            check_holds(await read_all(writer), writer.ledger, drafts)

        run(engine, scenario)

    def test_ids_are_given_at_once_and_in_call_order(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            submissions = [writer.submit(numbered(n * 3, 3)) for n in range(5)]
            assert [submission.first_entry for submission in submissions] == [0, 3, 6, 9, 12]
            assert writer.last_confirmed == -1
            for submission in submissions:
                await submission.durable
                assert writer.last_confirmed >= submission.first_entry + 2
            check_holds(await read_all(writer), writer.ledger, numbered(0, 15))

        run(engine, scenario)

    def test_futures_resolve_in_submission_order(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writers = [await store.create({}) for _ in range(3)]
            resolved: list[int] = []
            futures = []
            for number in range(30):
                durable = writers[number % 3].submit(numbered(number, 1)).durable
                durable.add_done_callback(lambda _, number=number: resolved.append(number))  # type: ignore[misc]
                futures.append(durable)
                if number % 7 == 0:
                    await asyncio.sleep(0)
            for durable in futures:
                await durable
            await asyncio.sleep(0)
            assert [n for n in resolved if n % 3 == 0] == list(range(0, 30, 3))
            assert sorted(resolved) == list(range(30))

        run(engine, scenario)

    def test_a_read_ends_at_either_limit_but_returns_one_entry(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            await writer.append(numbered(0, 10, size=1000))
            by_count = await writer.read(2, max_entries=3, max_bytes=1 << 20)
            assert [entry.entry for entry in by_count] == [2, 3, 4]
            by_bytes = await writer.read(2, max_entries=100, max_bytes=2999)
            assert [entry.entry for entry in by_bytes] == [2, 3]
            exactly = await writer.read(0, max_entries=100, max_bytes=3000)
            assert [entry.entry for entry in exactly] == [0, 1, 2]
            too_large = await writer.read(9, max_entries=100, max_bytes=1)
            assert [entry.entry for entry in too_large] == [9]

        run(engine, scenario)

    def test_there_is_nothing_behind_the_end(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            assert list(await writer.read(0, max_entries=10, max_bytes=1000)) == []
            await writer.append(numbered(0, 2))
            assert list(await writer.read(2, max_entries=10, max_bytes=1000)) == []
            assert list(await writer.read(99, max_entries=10, max_bytes=1000)) == []

        run(engine, scenario)

    def test_a_reader_follows_a_writer_at_work(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            reader = await store.open(writer.ledger)
            assert reader.ledger == writer.ledger
            assert reader.last_confirmed == -1
            for number in range(20):
                await writer.append(numbered(number, 1))
                assert reader.last_confirmed == number
                found = await reader.read(number, max_entries=10, max_bytes=1 << 20)
                assert [entry.entry for entry in found] == [number]
            await writer.append(numbered(20, 1))  # opening did not fence

        run(engine, scenario)

    def test_reads_by_time_find_the_first_entry_that_is_late_enough(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: LedgerStore) -> None:
            random = Random(7)
            writer = await store.create({})
            times = [max(0, n * 10 + random.randint(-300, 300)) for n in range(1000)]
            for start in range(0, 1000, 50):
                some = times[start : start + 50]
                await writer.append([draft(b"%d" % t * 20, time_ms=t) for t in some])
            for wanted in (0, 1, 5, *range(17, 10_500, 611), 10**9):
                first = next((n for n, t in enumerate(times) if t >= wanted), len(times))
                assert await writer.find_by_time(wanted) == first, wanted

        run(engine, scenario)

    def test_nothing_is_found_by_time_in_an_empty_ledger(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            assert await writer.find_by_time(0) == 0
            assert await writer.find_by_time(99) == 0

        run(engine, scenario)

    def test_close_waits_for_what_was_submitted(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            submission = writer.submit(numbered(0, 7, size=100))
            assert await writer.close() == LedgerEnd(6, 700)
            assert submission.durable.done()
            assert writer.last_confirmed == 6
            assert await writer.close() == LedgerEnd(6, 700)
            assert await store.recover(writer.ledger) == LedgerEnd(6, 700)
            with pytest.raises(Closed):
                writer.submit(numbered(7, 1))
            check_holds(await read_all(writer), writer.ledger, numbered(0, 7))

        run(engine, scenario)

    def test_an_empty_ledger_can_be_closed(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            assert await writer.close() == LedgerEnd(-1, 0)
            assert await store.recover(writer.ledger) == LedgerEnd(-1, 0)

        run(engine, scenario)

    def test_recovery_fences_the_writer_and_keeps_what_was_acknowledged(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            await writer.append(numbered(0, 3))
            on_its_way = writer.submit(numbered(3, 2))
            end = await store.recover(writer.ledger)
            assert end.last_entry >= 2
            with pytest.raises(Fenced):
                writer.submit(numbered(5, 1))
            with pytest.raises(Fenced):
                await writer.append(numbered(5, 1))
            with pytest.raises(Fenced):
                await writer.close()
            assert on_its_way.durable.done()
            if on_its_way.durable.exception() is None:
                assert end.last_entry == 4
            assert await store.recover(writer.ledger) == end
            reader = await store.open(writer.ledger)
            assert reader.last_confirmed == end.last_entry
            check_holds(await read_all(reader), writer.ledger, numbered(0, 5)[: end.last_entry + 1])

        run(engine, scenario)

    def test_recoveries_at_the_same_time_find_the_same_end(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            writer.submit(numbered(0, 9))
            ends = await asyncio.gather(*[store.recover(writer.ledger) for _ in range(4)])
            assert len(set(ends)) == 1

        run(engine, scenario)

    def test_a_waiter_that_gives_up_does_not_disturb_the_others(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            impatient = asyncio.create_task(writer.append(numbered(0, 1)))
            patient = asyncio.create_task(writer.append(numbered(1, 1)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            impatient.cancel()
            assert await patient == 1
            assert impatient.done() or not impatient.cancelled()
            await writer.append(numbered(2, 1))
            check_holds(await read_all(writer), writer.ledger, numbered(0, 3))

        run(engine, scenario)

    def test_ledgers_are_listed_with_their_properties(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writers = [await store.create({"number": str(n), "ö": "ü"}) for n in range(3)]
            ids = [writer.ledger for writer in writers]
            assert ids == sorted(set(ids))
            assert [ledger async for ledger in store.ledgers()] == ids
            assert await store.properties(ids[1]) == {"number": "1", "ö": "ü"}

        run(engine, scenario)

    def test_a_deleted_ledger_is_gone_and_its_id_is_not_used_again(
        self, engine: EngineUnderTest
    ) -> None:
        async def scenario(store: LedgerStore) -> None:
            kept, dropped = await store.create({}), await store.create({})
            await dropped.append(numbered(0, 50))
            await kept.append(numbered(0, 50))
            await store.delete(dropped.ledger)
            await store.delete(dropped.ledger)
            assert [ledger async for ledger in store.ledgers()] == [kept.ledger]
            with pytest.raises(NotFound):
                await store.open(dropped.ledger)
            with pytest.raises(NotFound):
                await store.recover(dropped.ledger)
            with pytest.raises(NotFound):
                await store.properties(dropped.ledger)
            with pytest.raises((Stale, Refused)):
                await dropped.append(numbered(50, 1))
            assert (await store.create({})).ledger > dropped.ledger
            check_holds(await read_all(kept), kept.ledger, numbered(0, 50))

        run(engine, scenario)

    def test_what_does_not_exist_is_not_found(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            for ask in (store.open, store.recover, store.properties):
                with pytest.raises(NotFound):
                    await ask(12345)
            await store.delete(12345)

        run(engine, scenario)

    def test_many_ledgers_are_written_at_once(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writers = [await store.create({}) for _ in range(10)]

            async def fill(writer: LedgerWriter) -> None:
                for number in range(0, 60, 3):
                    assert await writer.append(numbered(number, 3, size=300)) == number

            await asyncio.gather(*[fill(writer) for writer in writers])
            for writer in writers:
                check_holds(await read_all(writer), writer.ledger, numbered(0, 60, size=300))
                middle = await read_all(writer, 31, max_entries=4)
                assert [entry.entry for entry in middle] == list(range(31, 60))

        run(engine, scenario)

    def test_reading_goes_on_while_writing(self, engine: EngineUnderTest) -> None:
        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            reader = await store.open(writer.ledger)
            found: list[Entry] = []

            async def follow() -> None:
                while len(found) < 300:
                    found.extend(await reader.read(len(found), max_entries=7, max_bytes=10_000))
                    await asyncio.sleep(0)

            following = asyncio.create_task(follow())
            for number in range(300):
                await writer.append(numbered(number, 1, size=700))
            await following
            check_holds(found, writer.ledger, numbered(0, 300, size=700))

        run(engine, scenario)

    def test_everything_acknowledged_survives_the_process(self, engine: EngineUnderTest) -> None:
        if not engine.survives_restart:
            pytest.skip("this engine keeps nothing")

        async def scenario(store: LedgerStore) -> None:
            closed, left_open = await store.create({"a": "1"}), await store.create({"b": "2"})
            deleted = await store.create({})
            for number in range(0, 90, 3):
                await closed.append(numbered(number, 3, size=500))
                await left_open.append(numbered(number, 3, size=200))
                await deleted.append(numbered(number, 3, size=200))
            end = await closed.close()
            await store.delete(deleted.ledger)
            for _ in range(2):
                store = await engine.kill_and_restart()
                ids = [ledger async for ledger in store.ledgers()]
                assert ids == [closed.ledger, left_open.ledger]
                assert await store.properties(closed.ledger) == {"a": "1"}
                reader = await store.open(closed.ledger)
                check_holds(await read_all(reader), closed.ledger, numbered(0, 90, size=500))
                assert await reader.find_by_time(45) == 45
                reader = await store.open(left_open.ledger)
                check_holds(await read_all(reader), left_open.ledger, numbered(0, 90, size=200))
                assert await store.recover(closed.ledger) == end
            recovered = await store.recover(left_open.ledger)
            assert recovered == LedgerEnd(89, 90 * 200)
            store = await engine.kill_and_restart()
            assert await store.recover(left_open.ledger) == recovered
            assert (await store.create({})).ledger > deleted.ledger

        run(engine, scenario)

    def test_what_was_on_its_way_is_found_without_a_gap_or_not_at_all(
        self, engine: EngineUnderTest
    ) -> None:
        if not engine.survives_restart:
            pytest.skip("this engine keeps nothing")

        async def scenario(store: LedgerStore) -> None:
            writer = await store.create({})
            await writer.append(numbered(0, 5))
            for number in range(5, 50, 5):
                writer.submit(numbered(number, 5))
                await asyncio.sleep(0)
            store = await engine.kill_and_restart()
            end = await store.recover(writer.ledger)
            assert 4 <= end.last_entry < 50
            entries = await read_all(await store.open(writer.ledger))
            check_holds(entries, writer.ledger, numbered(0, end.last_entry + 1))

        run(engine, scenario)
