"""The real disk keeps the promises of runtime/world.py."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from anabranch.errors import Unavailable
from anabranch.runtime.system_disk import SystemDisk

T = TypeVar("T")


def on_disk(root: Path, scenario: Callable[[SystemDisk], Awaitable[T]]) -> T:
    async def run() -> T:
        return await scenario(SystemDisk(root))

    return asyncio.run(run())


@pytest.mark.parametrize("own_thread", [False, True])
def test_pieces_of_every_size_land_one_behind_the_other(tmp_path: Path, own_thread: bool) -> None:
    # Sizes around the joining threshold, and more pieces than one system call takes.
    sizes = [0, 1, 16 * 1024 - 1, 16 * 1024, 16 * 1024 + 1, 100_000] + [20_000] * 1100 + [7] * 3000
    pieces = [random.Random(size + i).randbytes(size) for i, size in enumerate(sizes)]

    async def scenario(disk: SystemDisk) -> bytes:
        file = await disk.open("f", create=True, own_thread=own_thread)
        await file.write(10, [memoryview(piece) for piece in pieces], sync=True)
        size = await file.size()
        assert size == 10 + sum(sizes)
        content = await file.read(0, size + 1)
        await file.close()
        return content

    assert on_disk(tmp_path, scenario) == b"\0" * 10 + b"".join(pieces)


def test_a_read_behind_the_end_is_short_not_an_error(tmp_path: Path) -> None:
    async def scenario(disk: SystemDisk) -> tuple[bytes, bytes]:
        file = await disk.open("f", create=True)
        await file.write(0, [b"abc"])
        return await file.read(1, 100), await file.read(50, 100)

    assert on_disk(tmp_path, scenario) == (b"bc", b"")


def test_a_disk_that_fills_up_raises_with_its_errno(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full on this system")
    (tmp_path / "full").symlink_to("/dev/full")

    async def scenario(disk: SystemDisk) -> None:
        file = await disk.open("full")
        await file.write(0, [b"x"])

    with pytest.raises(OSError, match="No space left") as caught:
        on_disk(tmp_path, scenario)
    assert caught.value.errno == errno.ENOSPC


def test_a_missing_file_is_only_made_when_asked(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        on_disk(tmp_path, lambda disk: disk.open("absent"))


def test_directories_list_sorted_and_absent_ones_are_empty(tmp_path: Path) -> None:
    async def scenario(disk: SystemDisk) -> tuple[list[str], list[str]]:
        await disk.make_directory("a/b")
        await disk.make_directory("a/b")
        for name in ("z", "y"):
            await (await disk.open(f"a/b/{name}", create=True)).close()
        await disk.rename("a/b/z", "a/b/x")
        await disk.sync_directory("a/b")
        return await disk.list_directory("a/b"), await disk.list_directory("nowhere")

    assert on_disk(tmp_path, scenario) == (["x", "y"], [])


def test_a_lock_is_refused_while_another_process_holds_it(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys; from pathlib import Path; "
            "from anabranch.runtime.system_disk import SystemDisk; "
            "held = SystemDisk(Path(sys.argv[1])).lock('lock'); "
            "print('held', flush=True); sys.stdin.read()",
            str(tmp_path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"ANABRANCH_PURE": "1"},
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Unavailable, match="held by another running process"):
            SystemDisk(tmp_path).lock("lock")
        holder.kill()
        holder.wait()
        SystemDisk(tmp_path).lock("lock").release()


def test_transactions_run_in_call_order_and_roll_back_whole(tmp_path: Path) -> None:
    async def scenario(disk: SystemDisk) -> list[tuple[object, ...]]:
        database = await disk.open_database("d.db")
        await database.transact(lambda c: c.execute("CREATE TABLE t (n INTEGER)"))

        def insert(n: int) -> Awaitable[object]:
            return database.transact(lambda c: c.execute("INSERT INTO t VALUES (?)", (n,)))

        await asyncio.gather(*(insert(n) for n in range(50)))
        with pytest.raises(ZeroDivisionError):
            await database.transact(
                lambda c: (c.execute("INSERT INTO t VALUES (99)"), 1 // 0),
            )
        rows = await database.transact(lambda c: c.execute("SELECT n FROM t ORDER BY rowid"))
        await database.close()
        return list(rows)

    assert on_disk(tmp_path, scenario) == [(n,) for n in range(50)]


def test_a_committed_transaction_survives_kill_9(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from pathlib import Path
from anabranch.runtime.system_disk import SystemDisk
async def main():
    database = await SystemDisk(Path(sys.argv[1])).open_database("d.db")
    await database.transact(lambda c: c.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)"))
    for n in range(10**9):
        await database.transact(lambda c: c.execute("INSERT INTO t VALUES (?)", (n,)))
        print(n, flush=True)
asyncio.run(main())
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdout=subprocess.PIPE,
        env=os.environ | {"ANABRANCH_PURE": "1"},
    )
    with child:
        assert child.stdout is not None
        for _ in range(25):
            acknowledged = int(child.stdout.readline())
        child.kill()
        acknowledged = max(
            [acknowledged, *(int(line) for line in child.stdout if line[-1:] == b"\n")]
        )

    async def scenario(disk: SystemDisk) -> int:
        database = await disk.open_database("d.db")
        rows = await database.transact(lambda c: c.execute("SELECT max(n) FROM t"))
        await database.close()
        assert isinstance(rows[0][0], int)
        return rows[0][0]

    assert on_disk(tmp_path, scenario) >= acknowledged
