"""The local engine on a real disk that fails, fills up, and is taken away with kill -9."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import Full, Unavailable
from anabranch.runtime.system import system_world
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import LedgerWriter
from tests.faulty_disk import FaultyDisk, faulty
from tests.ledger_contract import check_holds, numbered, read_all
from tests.ledger_engines import TINY, abandon


def on_faulty_disk(
    directory: Path, scenario: Callable[[FileLedgerStore, FaultyDisk], Coroutine[Any, Any, None]]
) -> None:
    """Run it with a store on a disk that can be told to fail."""

    async def whole() -> None:
        world, disk = faulty(system_world(directory))
        store = await FileLedgerStore.start(world, TINY)
        try:
            await scenario(store, disk)
        finally:
            await store.close()

    asyncio.run(whole())


async def append_until(error: type[Exception], match: str, writer: LedgerWriter) -> int:
    """Append until it is refused; how many entries the ledger then has."""

    async def append() -> None:
        while writer.last_confirmed < 100_000:
            await writer.append(numbered(writer.last_confirmed + 1, 30))

    with pytest.raises(error, match=match):
        await append()
    return writer.last_confirmed + 1


async def until_writing(store: FileLedgerStore) -> None:
    # Nobody is told that there is room again: this is how a client would find out.
    while store.stats()["state"] == "full":  # noqa: ASYNC110
        await asyncio.sleep(0)


async def after_restart(directory: Path, writer: LedgerWriter) -> int:
    """How many entries a new process finds; each must be the one that was submitted."""
    store = await FileLedgerStore.start(system_world(directory), TINY)
    end = await store.recover(writer.ledger)
    entries = await read_all(await store.open(writer.ledger))
    check_holds(entries, writer.ledger, numbered(0, end.last_entry + 1))
    await store.close()
    return len(entries)


@pytest.mark.parametrize("call", ["sync", "write"])
def test_a_failed_journal_commit_stops_all_writing_for_good(
    tmp_path: Path, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(store: FileLedgerStore, disk: FaultyDisk) -> None:
        writer, other = await store.create({}), await store.create({})
        await writer.append(numbered(0, 10))
        fault = disk.fail(lambda what, path: what == call and "/journal/" in path)
        first, second = writer.submit(numbered(10, 1)), other.submit(numbered(0, 1))
        for submission in (first, second):
            with pytest.raises(Unavailable, match="Input/output error"):
                await submission.durable
        assert fault.hits == 1
        journal = [c for c in disk.calls if c[0] == "sync" and "/journal/" in c[1]]
        for refused in (writer, other):
            with pytest.raises(Unavailable, match="takes no more writes"):
                refused.submit(numbered(11, 1))
            with pytest.raises(Unavailable):
                await refused.append(numbered(11, 1))
        with pytest.raises(Unavailable):
            await store.create({})
        with pytest.raises(Unavailable):
            await store.recover(other.ledger)
        assert store.stats()["state"] == "failed"
        assert "Input/output error" in store.stats()["reason"]
        check_holds(await read_all(writer), writer.ledger, numbered(0, 10))
        assert writer.last_confirmed == 9
        # Asking again would be answered with a lie, so nobody asks.
        assert journal == [c for c in disk.calls if c[0] == "sync" and "/journal/" in c[1]]
        await abandon(store)
        assert 10 <= await after_restart(tmp_path, writer) <= 11

    on_faulty_disk(tmp_path, scenario)
    assert [record.levelno for record in caplog.records].count(logging.CRITICAL) == 1


@pytest.mark.parametrize(
    ("call", "place"),
    [
        ("write", "/ledgers/"),
        ("sync", "/ledgers/"),
        ("sync", "manifest"),
        ("rename", "manifest"),
        ("sync_directory", "storage"),
        ("rename", "/journal/"),
    ],
)
def test_any_other_failed_write_stops_writing_and_loses_nothing(
    tmp_path: Path, call: str, place: str
) -> None:
    async def scenario(store: FileLedgerStore, disk: FaultyDisk) -> None:
        writer = await store.create({})
        disk.fail(lambda what, path: what == call and place in path, after=1)
        acknowledged = await append_until(Unavailable, "Input/output error", writer)
        assert store.stats()["state"] == "failed"
        await abandon(store)
        assert await after_restart(tmp_path, writer) >= acknowledged

    on_faulty_disk(tmp_path, scenario)


def test_a_full_disk_refuses_entries_and_takes_them_again_by_itself(tmp_path: Path) -> None:
    async def scenario(store: FileLedgerStore, disk: FaultyDisk) -> None:
        writer = await store.create({})
        await writer.append(numbered(0, 5))
        fault = disk.fail(
            lambda what, path: what == "write" and ("/ledgers/" in path or path.endswith("/new")),
            error=errno.ENOSPC,
            times=10**9,
        )
        accepted = await append_until(Full, "No space left", writer)
        assert store.stats()["state"] == "full"
        with pytest.raises(Full):
            writer.submit(numbered(accepted, 1))
        with pytest.raises(Full):
            await store.create({})
        check_holds(await read_all(writer), writer.ledger, numbered(0, accepted))
        fault.times = 0  # there is room again
        await until_writing(store)
        assert await writer.append(numbered(accepted, 1)) == accepted
        check_holds(await read_all(writer), writer.ledger, numbered(0, accepted + 1))

    on_faulty_disk(tmp_path, scenario)


def test_ledgers_can_be_closed_and_deleted_on_a_full_disk(tmp_path: Path) -> None:
    async def scenario(store: FileLedgerStore, disk: FaultyDisk) -> None:
        kept, dropped = await store.create({}), await store.create({})
        await kept.append(numbered(0, 5))
        await dropped.append(numbered(0, 300))
        disk.fail(
            lambda what, path: what == "write" and "/journal/" not in path,
            error=errno.ENOSPC,
            times=10**9,
        )
        await append_until(Full, "No space left", dropped)
        assert (await kept.close()).last_entry == 4
        await store.delete(dropped.ledger)
        assert [ledger async for ledger in store.ledgers()] == [kept.ledger]

    on_faulty_disk(tmp_path, scenario)


def test_entries_are_refused_before_the_reserve_is_used_up(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty(system_world(tmp_path))
        disk.free = 999
        store = await FileLedgerStore.start(world, replace(TINY, reserve_bytes=1000))
        with pytest.raises(Full, match="999 bytes are free"):
            await store.create({})
        disk.free = 1000
        await until_writing(store)
        await (await store.create({})).append(numbered(0, 1))
        await store.close()

    asyncio.run(scenario())


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root")
def test_a_small_file_system_fills_up_and_is_freed_by_deleting(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs here: {mounted.stderr.decode().strip()}")

    async def scenario() -> None:
        store = await FileLedgerStore.start(system_world(tmp_path), TINY)
        kept, writer = await store.create({}), await store.create({})
        await kept.append(numbered(0, 20))
        count = await append_until(Full, "No space left", writer)
        check_holds(await read_all(writer), writer.ledger, numbered(0, count))
        await store.delete(writer.ledger)
        await until_writing(store)
        await kept.append(numbered(20, 200))
        check_holds(await read_all(kept), kept.ledger, numbered(0, 220))
        await store.close()

    try:
        asyncio.run(scenario())
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = await FileLedgerStore.start(system_world(tmp_path), TINY)
        with pytest.raises(Unavailable, match="held by another running process"):
            await FileLedgerStore.start(system_world(tmp_path), TINY)
        await store.close()
        again = await FileLedgerStore.start(system_world(tmp_path), TINY)
        await again.close()

    asyncio.run(scenario())


WRITER = """
import asyncio, json, sys
from pathlib import Path
from anabranch.runtime.system import system_world
from anabranch.storage.file_ledger import FileLedgerStore
from tests.ledger_contract import numbered
from tests.ledger_engines import TINY

async def write(store, writer):
    number = 0
    while True:
        await writer.append(numbered(number, 1 + number % 4, size=60 + number % 500))
        number += 1 + number % 4
        sys.stdout.write(json.dumps([writer.ledger, number]) + "\\n")
        sys.stdout.flush()

async def main():
    store = await FileLedgerStore.start(system_world(Path(sys.argv[1])), TINY)
    writers = [await store.create({}) for _ in range(3)]
    await asyncio.gather(*[write(store, writer) for writer in writers])

asyncio.run(main())
"""


def written(count: int) -> list[Any]:
    drafts: list[Any] = []
    while len(drafts) < count:
        number = len(drafts)
        drafts += numbered(number, 1 + number % 4, size=60 + number % 500)
    return drafts[:count]


def test_nothing_acknowledged_is_lost_by_kill_9(tmp_path: Path) -> None:
    """A real process, killed at any moment, again and again on the same directory.

    ANABRANCH_KILLS=50 makes it that many times.
    """
    chance = random.Random(5)
    acknowledged: dict[int, int] = {}
    for _ in range(int(os.environ.get("ANABRANCH_KILLS", "6"))):
        lines = chance.randint(20, 700)
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        assert child.stdout is not None
        for _ in range(lines):
            ledger, count = json.loads(child.stdout.readline())
            acknowledged[ledger] = count
        child.send_signal(signal.SIGKILL)
        # What it managed to say before it died was acknowledged as well; the last line may be cut.
        for line in child.stdout.read().splitlines():
            if line.endswith("]"):
                ledger, count = json.loads(line)
                acknowledged[ledger] = count
        child.stdout.close()
        child.wait()
    asyncio.run(_check_acknowledged(tmp_path, acknowledged))


async def _check_acknowledged(directory: Path, acknowledged: dict[int, int]) -> None:
    store = await FileLedgerStore.start(system_world(directory), TINY)
    assert acknowledged
    assert set(acknowledged) <= {ledger async for ledger in store.ledgers()}
    for ledger, count in acknowledged.items():
        end = await store.recover(ledger)
        assert end.last_entry + 1 >= count
        entries = await read_all(await store.open(ledger))
        check_holds(entries, ledger, written(end.last_entry + 1))
    await store.close()
