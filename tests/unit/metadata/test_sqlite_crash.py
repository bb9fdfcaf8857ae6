"""kill -9: what a process was told is durable is there when the next one opens the file.

The child compares-and-sets records as fast as it can, several at a time, and prints a line for
every acknowledgement; the parent kills it after some number of lines, so at a random point of
some transaction.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path
from random import Random

from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.runtime.system import system_world

WRITERS = 8

CHILD = """
import asyncio, sys
from pathlib import Path
from anabranch.metadata.sqlite import SqliteTree
from anabranch.runtime.system import system_world

async def write(store, path):
    found = await store.get(path)
    count, version = (int(found[0]), found[1].version) if found else (0, -1)
    await store.put(path + "-lock", b"", None, ephemeral=True)
    while True:
        count += 1
        version = (await store.put(path, b"%d" % count, version)).version
        print(path, count, version, flush=True)

async def main():
    store = (await SqliteTree.open("meta.db", system_world(Path(sys.argv[1])))).open_session()
    await asyncio.gather(*(write(store, f"/counters/{n}") for n in range(int(sys.argv[2]))))

asyncio.run(main())
"""


def acknowledged_before_kill(directory: Path, lines: int) -> dict[str, tuple[int, int]]:
    """Path to (count, version) of its last acknowledged put, read up to the end of the pipe."""
    command = [sys.executable, "-c", CHILD, str(directory), str(WRITERS)]
    last: dict[str, tuple[int, int]] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for number, line in enumerate(child.stdout):
            if number == lines:
                child.send_signal(signal.SIGKILL)
            if line.endswith("\n"):
                path, count, version = line.split()
                last[path] = (int(count), int(version))
    assert child.returncode == -signal.SIGKILL
    return last


async def check_recovered(store: MetadataStore, acknowledged: dict[str, tuple[int, int]]) -> int:
    """Every acknowledged put is there, or the one put that its writer had under way after it."""
    for path, (count, version) in acknowledged.items():
        found = await store.get(path)
        assert found is not None, path
        assert int(found[0]) in (count, count + 1), path
        assert (found[1].version == version) == (int(found[0]) == count), path
    assert not [name for name in await store.children("/counters") if name.endswith("-lock")]
    return (await store.put("/after", b"", None)).version


def test_acknowledged_writes_survive_kill_minus_nine(tmp_path: Path) -> None:
    random = Random(20261116)
    newest = NEW

    async def reopen(acknowledged: dict[str, tuple[int, int]]) -> int:
        store = (await SqliteTree.open("meta.db", system_world(tmp_path))).open_session()
        try:
            return await check_recovered(store, acknowledged)
        finally:
            await store.close()

    for _ in range(5):
        acknowledged = acknowledged_before_kill(tmp_path, random.randint(1, 400))
        assert len(acknowledged) > 0
        version = asyncio.run(reopen(acknowledged))
        assert version > max(newest, *(version for _, version in acknowledged.values()))
        newest = version
