"""The embedded metadata engine on a machine that keeps dying.

A run is a few lives of one process. In each, clients write records (each client its own paths, so
their order is known), fight over one counter, hold ephemeral records, and watch. The life ends in
a random call of the disk, after a while, or in peace; the disk may fill up or fail a sync.

What must hold:
- an acknowledged write is there in the next life; one without an answer is there whole or not;
- what any reader saw is durable: it was not shown before;
- no path sees a version twice; a compare-and-set succeeds exactly on the present version;
- no ephemeral of an earlier life is left; a watcher that re-reads ends with the truth.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random

from anabranch.errors import BadVersion, Full, NotFound, SessionLost, Unavailable
from anabranch.metadata.sqlite import SqliteTree
from anabranch.metadata.store import NEW, MetadataStore, Notification, Resync
from anabranch.runtime.world import World
from tests.simulation.machine import Machine
from tests.simulation.workloads.lives import run_lives
from tests.simulation.world import SimulatedWorld

PATH = "metadata/store.db"
COUNTER = "/counter"
GONE = (Unavailable, SessionLost, Full)


@dataclass
class Record:
    """What one client knows about a path that only it writes."""

    path: str
    value: bytes | None = None
    version: int = NEW
    # The write whose answer never came: its value (None: a deletion), if there is one.
    unknown: tuple[bytes | None] | None = None
    versions: set[int] = field(default_factory=set)

    def acknowledge(self, value: bytes | None, version: int) -> None:
        self.unknown = None
        self.value, self.version = value, version
        self.remember_version()

    def remember_version(self) -> None:
        if self.value is not None:
            assert self.version not in self.versions, f"{self.path}: version {self.version} again"
            self.versions.add(self.version)

    def see(self, found: tuple[bytes, int] | None) -> None:
        """A read: it must show what was acknowledged, or the write without an answer."""
        value, version = found or (None, NEW)
        if self.unknown is not None and value == self.unknown[0] != self.value:
            self.unknown = None
            self.value, self.version = value, version
            self.remember_version()
        expected = (self.value, self.version)
        assert (value, version) == expected, f"{self.path}: {value, version}, not {expected}"


@dataclass
class History:
    records: list[Record]
    writes: int = 0
    counted: int = 0  # increments that were acknowledged
    uncertain: int = 0  # increments without an answer
    last_count: int = 0  # the highest anybody has read
    ended_in_peace: bool = False


async def crash_the_sqlite_engine(world: SimulatedWorld) -> None:
    random = world.random
    records = [Record(f"/r/{number}/x") for number in range(random.randint(2, 5))]
    history = History(records)

    async def live(inner: World) -> None:
        await one_life(inner, history, Random(random.getrandbits(64)))

    await run_lives(world, live, disturb=disturb)
    assert history.ended_in_peace, "the last life had a sound disk, and failed"


def disturb(machine: Machine, random: Random) -> None:
    """Besides dying: a disk that fails or fills. Never both at once, to keep causes apart."""
    faults = machine.disk.faults
    faults.fail_sync_in = random.randint(3, 60) if random.random() < 0.2 else 0
    faults.capacity_bytes = 1 << 40
    if random.random() < 0.2:
        faults.capacity_bytes = machine.disk.namespace.used_bytes() + random.randint(0, 100_000)


async def one_life(world: World, history: History, random: Random) -> None:
    history.ended_in_peace = False
    try:
        engine = await SqliteTree.open(PATH, world)
        session = engine.open_session()
        await check_recovered(session, history)
        await use(session, history, random)
        await session.close()
        history.ended_in_peace = True
    except* GONE:
        pass  # the disk failed or is full; what that left behind is the next life's to check


async def use(session: MetadataStore, history: History, random: Random) -> None:
    mirror = Mirror(session)
    watch = session.watch("/r", mirror.hear)
    async with asyncio.TaskGroup() as group:
        for record in history.records:
            group.create_task(write_records(session, record, history, random))
        for _ in range(2):
            group.create_task(count_up(session, history, random))
        group.create_task(hold_ephemerals(session, random))
    await asyncio.sleep(1)
    await mirror.check(session)
    watch.close()


async def check_recovered(session: MetadataStore, history: History) -> None:
    for record in history.records:
        record.see(await read(session, record.path))
        record.unknown = None
    assert await session.children("/ephemeral") == []
    found = await read(session, COUNTER)
    count = int(found[0]) if found else 0
    assert history.counted <= count <= history.counted + history.uncertain
    assert count >= history.last_count, "a count that was read has gone"
    history.counted, history.uncertain, history.last_count = count, 0, count


async def read(session: MetadataStore, path: str) -> tuple[bytes, int] | None:
    found = await session.get(path)
    return None if found is None else (found[0], found[1].version)


async def write_records(
    session: MetadataStore, record: Record, history: History, random: Random
) -> None:
    for _ in range(random.randint(1, 8)):
        await asyncio.sleep(random.choice((0, 0, 0.01)))
        history.writes += 1
        value = b"%d" % history.writes * random.choice((1, 1, 1, 700))
        match random.choice(("put", "put", "cas", "stale", "delete", "read")):
            case "put":
                await put(session, record, value, None)
            case "cas":
                await put(session, record, value, record.version)
            case "stale":
                await put_stale(session, record, value)
            case "delete":
                await delete(session, record)
            case _:
                record.see(await read(session, record.path))


async def put(session: MetadataStore, record: Record, value: bytes, expected: int | None) -> None:
    record.unknown = (value,)
    try:
        stat = await session.put(record.path, value, expected)
    except Full:
        record.unknown = None  # rolled back: the contract of Full
        raise
    record.acknowledge(value, stat.version)
    record.see(await read(session, record.path))


async def put_stale(session: MetadataStore, record: Record, value: bytes) -> None:
    try:
        await session.put(record.path, value, record.version + 1000)
    except BadVersion:
        return
    raise AssertionError(f"{record.path}: a version that never was passed for the present one")


async def delete(session: MetadataStore, record: Record) -> None:
    record.unknown = (None,)
    try:
        await session.delete(record.path)
    except NotFound:
        assert record.value is None, f"{record.path}: acknowledged, but not found"
    except Full:
        record.unknown = None
        raise
    record.acknowledge(None, NEW)


async def count_up(session: MetadataStore, history: History, random: Random) -> None:
    """Two clients add to one counter by compare-and-set; nothing may be counted twice or lost."""
    for _ in range(random.randint(1, 6)):
        await asyncio.sleep(random.choice((0, 0.002)))
        found = await read(session, COUNTER)
        count, version = (int(found[0]), found[1]) if found else (0, NEW)
        history.last_count = max(history.last_count, count)
        history.uncertain += 1
        try:
            await session.put(COUNTER, b"%d" % (count + 1), version)
        except BadVersion:
            history.uncertain -= 1
            continue
        except Full:
            history.uncertain -= 1
            raise
        history.uncertain -= 1
        history.counted += 1


async def hold_ephemerals(session: MetadataStore, random: Random) -> None:
    seen: set[str] = set()
    for _ in range(random.randint(0, 4)):
        stat = await session.put("/ephemeral/e", b"", NEW, ephemeral=True, sequential=True)
        assert stat.path not in seen
        seen.add(stat.path)


class Mirror:
    """A watcher that keeps a copy by re-reading what it is told about."""

    def __init__(self, session: MetadataStore) -> None:
        self._session = session
        self._copy: dict[str, tuple[bytes, int] | None] = {}

    async def hear(self, notification: Notification) -> None:
        assert not isinstance(notification, Resync), "nothing was missed"
        await asyncio.sleep(0)
        self._copy[notification.path] = await read(self._session, notification.path)

    async def check(self, session: MetadataStore) -> None:
        for path, known in sorted(self._copy.items()):
            assert known == await read(session, path), f"the watcher was left behind at {path}"
