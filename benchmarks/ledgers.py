"""How many synced appends a second does the local ledger engine take, against the bare disk?

    python benchmarks/ledgers.py [--quick] [--rounds N] [--directory DIR] [--json FILE]

Each round runs one process per variant, one after the other: `interpreted` is the engine as plain
Python, `compiled` the same with its codec through mypyc (left out if there are no compiled
modules). Every process first measures the bare disk: write and fdatasync of 4 KB, over and over, in
a file filled beforehand. An append counts when its commit has been synced; the lazily written
ledger files, checkpoints and the reuse of journal files are all part of what is measured.

Not with --quick: it never fills a journal file, so no checkpoint runs and none is reused. It shows
that the benchmark works; its rates are too high to be quoted. Nor on a busy machine: there the bare
disk's own median moves by a factor of seven between runs, so compare with it only if it is steady.

In flight are 1000 entries of 1 KB, submitted 16 at a time (what one read from a connection brings)
unless the row says otherwise. CPU is that of the whole process, load generator included.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from anabranch.errors import Unavailable
from anabranch.runtime import build_mode
from anabranch.runtime.system import system_world
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft, LedgerReader, LedgerWriter
from anabranch.storage.record_codec import measure as measure_drafts
from benchmarks.report import Row, report
from tests.ledger_engines import abandon

QUESTION = __doc__.splitlines()[0] if __doc__ else ""
KIB = 1024
LEDGERS = (1, 16, 64, 256)
PER_SUBMIT = 16
IN_FLIGHT = 1000

Figures = dict[str, tuple[float, str]]  # measure -> (value, unit)


@dataclass(frozen=True, slots=True)
class Scale:
    appends: int
    large_appends: int
    single_appends: int
    raw_syncs: int
    recovery_bytes: int


FULL = Scale(200_000, 3_000, 1_000, 1_000, 256 << 20)
QUICK = Scale(30_000, 400, 200, 200, 32 << 20)


@dataclass
class Load:
    """Keeps so many entries in flight, round robin over the ledgers, and times each commit."""

    store: FileLedgerStore
    writers: Sequence[LedgerWriter]
    drafts: list[Draft]
    in_flight: int
    latencies: list[float] = field(default_factory=list)
    _waiting: deque[tuple[asyncio.Future[None], int, float]] = field(default_factory=deque)
    _flying: int = 0
    _turn: int = 0

    async def run(self, total: int) -> tuple[float, float]:
        """Seconds it took, and CPU seconds."""
        cpu, wall = time.process_time(), time.perf_counter()
        sent = 0
        while sent < total or self._waiting:
            while self._flying + len(self.drafts) <= self.in_flight and sent < total:
                if not self._submit():
                    await self.store.wait_for_room(
                        measure_drafts(self.drafts, self.store.largest_entry_bytes)
                    )
                    continue
                sent += len(self.drafts)
            await self._land()
        return time.perf_counter() - wall, time.process_time() - cpu

    def _submit(self) -> bool:
        try:
            durable = self.writers[self._turn % len(self.writers)].submit(self.drafts).durable
        except Unavailable:
            return False
        self._turn += 1
        count = len(self.drafts)
        self._flying += count
        if self._waiting and self._waiting[-1][0] is durable:
            _, earlier, since = self._waiting[-1]
            self._waiting[-1] = (durable, earlier + count, since)
        else:
            self._waiting.append((durable, count, time.perf_counter()))
        return True

    async def _land(self) -> None:
        durable, count, since = self._waiting.popleft()
        await durable
        self.latencies.append(time.perf_counter() - since)
        self._flying -= count


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def entry(size: int) -> Draft:
    body = os.urandom(size)
    return Draft(body, crc32c(body), 0, 1_700_000_000_000)


async def measure(directory: Path, scale: Scale) -> Figures:
    figures: Figures = {}
    figures |= raw_disk(directory, scale)
    for ledgers in LEDGERS:
        figures |= await appends(directory, scale, ledgers)
    figures |= await one_by_one(directory, scale)
    figures |= await large_entries(directory, scale)
    figures |= await one_in_flight(directory, scale)
    figures |= await reads(directory, scale)
    figures |= await recovery(directory, scale)
    return figures


def raw_disk(directory: Path, scale: Scale) -> Figures:
    path = directory / "raw"
    page = os.urandom(4 * KIB)
    path.write_bytes(bytes(len(page) * scale.raw_syncs))
    file = os.open(path, os.O_RDWR)
    os.fsync(file)
    times = []
    for number in range(scale.raw_syncs):
        start = time.perf_counter()
        os.pwrite(file, page, number * len(page))
        os.fdatasync(file)
        times.append(time.perf_counter() - start)
    os.close(file)
    path.unlink()
    return {
        "bare disk: 4 KB write+fdatasync": (len(times) / sum(times), "syncs/s"),
        "bare disk: 4 KB write+fdatasync, p50": (1e3 * statistics.median(times), "ms"),
        "bare disk: 4 KB write+fdatasync, p99": (1e3 * percentile(times, 0.99), "ms"),
    }


async def appends(directory: Path, scale: Scale, ledgers: int) -> Figures:
    store, root = await fresh_store(directory)
    writers = [await store.create({}) for _ in range(ledgers)]
    load = Load(store, writers, [entry(KIB)] * PER_SUBMIT, IN_FLIGHT)
    await load.run(scale.appends // 10)
    load.latencies.clear()
    wall, cpu = await load.run(scale.appends)
    await end(store, root)
    name = f"{ledgers} ledger{'s' * (ledgers > 1)}, 1 KB"
    figures: Figures = {
        f"{name}: appends": (scale.appends / wall, "entries/s"),
        f"{name}: bytes": (scale.appends * KIB / wall / 1e6, "MB/s"),
        f"{name}: CPU": (1e6 * cpu / scale.appends, "us/entry"),
    }
    if ledgers in (1, 64):
        figures[f"{name}: commit p50"] = (1e3 * statistics.median(load.latencies), "ms")
        figures[f"{name}: commit p99"] = (1e3 * percentile(load.latencies, 0.99), "ms")
    return figures


async def one_by_one(directory: Path, scale: Scale) -> Figures:
    store, root = await fresh_store(directory)
    load = Load(store, [await store.create({})], [entry(KIB)], IN_FLIGHT)
    await load.run(scale.appends // 10)
    wall, _ = await load.run(scale.appends)
    await end(store, root)
    return {"1 ledger, 1 KB, one entry per submit: appends": (scale.appends / wall, "entries/s")}


async def large_entries(directory: Path, scale: Scale) -> Figures:
    store, root = await fresh_store(directory)
    writers = [await store.create({}) for _ in range(16)]
    load = Load(store, writers, [entry(128 * KIB)], 200)
    await load.run(scale.large_appends // 10)
    wall, _ = await load.run(scale.large_appends)
    await end(store, root)
    megabytes = scale.large_appends * 128 * KIB / 1e6
    return {"16 ledgers, 128 KB, 200 in flight: bytes": (megabytes / wall, "MB/s")}


async def one_in_flight(directory: Path, scale: Scale) -> Figures:
    store, root = await fresh_store(directory)
    load = Load(store, [await store.create({})], [entry(KIB)], 1)
    await load.run(scale.single_appends)
    await end(store, root)
    return {
        "one in flight, 1 KB: p50": (1e3 * statistics.median(load.latencies), "ms"),
        "one in flight, 1 KB: p99": (1e3 * percentile(load.latencies, 0.99), "ms"),
    }


async def reads(directory: Path, scale: Scale) -> Figures:
    store, root = await fresh_store(directory)
    writer = await store.create({})
    count = 20_000  # within the cache
    await Load(store, [writer], [entry(KIB)] * PER_SUBMIT, IN_FLIGHT).run(count)
    from_memory = await read_rate(writer, writer.last_confirmed + 1)
    await store.close()
    store = await FileLedgerStore.start(system_world(root))
    reader = await store.open(writer.ledger)
    from_file = await read_rate(reader, reader.last_confirmed + 1)
    await end(store, root)
    return {
        "reads of 1 KB entries from memory": (from_memory, "entries/s"),
        "reads of 1 KB entries from a file, verified": (from_file, "entries/s"),
    }


async def read_rate(reader: LedgerReader, count: int) -> float:
    wall, first = time.perf_counter(), 0
    while first < count:
        first += len(await reader.read(first, max_entries=1000, max_bytes=1 << 20))
    return count / (time.perf_counter() - wall)


async def recovery(directory: Path, scale: Scale) -> Figures:
    root = Path(tempfile.mkdtemp(dir=directory))
    config = EngineConfig(
        journal_file_bytes=scale.recovery_bytes * 5 // 4,
        journal_files=2,
        owed_bytes=2 * scale.recovery_bytes,
    )
    store = await FileLedgerStore.start(system_world(root), config)
    writers = [await store.create({}) for _ in range(16)]
    await Load(store, writers, [entry(KIB)] * PER_SUBMIT, IN_FLIGHT).run(
        scale.recovery_bytes // (KIB + 48)
    )
    size = store.stats()["journal_bytes"]
    await abandon(store)  # as a kill would: no checkpoint
    start = time.perf_counter()
    store = await FileLedgerStore.start(system_world(root), config)
    seconds = time.perf_counter() - start
    await end(store, root)
    return {"recovery after a kill, 1 KB entries": (seconds / (size / 1e9), "s per GB of journal")}


async def fresh_store(directory: Path) -> tuple[FileLedgerStore, Path]:
    root = Path(tempfile.mkdtemp(dir=directory))
    store = await FileLedgerStore.start(system_world(root))
    writer = await store.create({})  # switches to the first journal file, the next is prepared
    await writer.append([entry(KIB)])
    return store, root


async def end(store: FileLedgerStore, root: Path) -> None:
    await store.close()
    shutil.rmtree(root)


def in_a_process(variant: str, options: argparse.Namespace) -> Figures:
    environment = {**os.environ, "ANABRANCH_PURE": "1" if variant == "interpreted" else "0"}
    command = [sys.executable, "-m", "benchmarks.ledgers", "--variant", variant]
    command += ["--quick"] * options.quick
    command += ["--directory", options.directory] if options.directory else []
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return {name: (value, unit) for name, (value, unit) in json.loads(done.stdout).items()}


def is_compiled() -> bool:
    return build_mode.loaded_mode() == "compiled"


def main() -> None:
    parser = argparse.ArgumentParser(description=QUESTION)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test, without checkpoints: not for figures"
    )
    parser.add_argument("--directory", help="where to write; another disk, another answer")
    parser.add_argument("--json", help="write the JSON here instead of printing it")
    parser.add_argument("--variant", choices=["interpreted", "compiled"])
    options = parser.parse_args()
    if options.variant:
        assert is_compiled() == (options.variant == "compiled"), build_mode.loaded_mode()
        with tempfile.TemporaryDirectory(dir=options.directory, prefix="ledgers-") as directory:
            scale = QUICK if options.quick else FULL
            print(json.dumps(asyncio.run(measure(Path(directory), scale))))
        return
    variants = ["interpreted", *(["compiled"] if is_compiled() else [])]
    found: dict[str, list[Figures]] = {variant: [] for variant in variants}
    for _ in range(options.rounds):
        for variant in variants:
            found[variant].append(in_a_process(variant, options))
    rows = [
        Row(name, variant, unit, tuple(figures[name][0] for figures in found[variant]))
        for name, (_, unit) in found[variants[0]][0].items()
        for variant in variants
    ]
    report(QUESTION, rows, json_file=options.json)


if __name__ == "__main__":
    main()
