"""What a disk remembers: the page cache, the platter below it, and what a power cut leaves.

Files. Reads see the cache. A write changes the cache and marks 512-byte sectors dirty; a sync
moves what was dirty *when it began* to the platter; the kernel may write back any dirty sector
earlier. At a power cut every dirty sector survives or not, on its own; a changed size survives,
or not, or half (then zeros stand where data should be). Nothing else may ever appear in a file.
A sync that fails does what Linux does: the pages count as clean, their data is on no platter, and
the cache may drop them at any moment; so a second sync would succeed and lie.

Names. Creating, renaming and removing change the directory in the cache. Until the directory is
synced each such change survives a power cut or not; a rename never survives half.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import NamedTuple

SECTOR = 512


class Snapshot(NamedTuple):
    """What a sync has promised to save: the sectors that were dirty when it began."""

    stamp: int
    size: int
    sectors: dict[int, tuple[int, bytes]]  # sector -> (stamp of its write, content)


class Inode:
    def __init__(self, number: int) -> None:
        self.number = number
        self.cache = bytearray()
        self.platter = bytearray()
        self.dirty: dict[int, int] = {}  # sector -> stamp of its newest unsynced write
        self._stamp = 0
        self._landed: dict[int, int] = {}  # sector -> stamp of what the platter holds
        self._size_landed = 0  # stamp of the platter's size

    def read(self, offset: int, size: int) -> bytes:
        return bytes(self.cache[offset : offset + size])

    def write(self, offset: int, data: bytes) -> None:
        if not data:
            return
        first = min(offset, len(self.cache))  # a gap behind the old end is zeros, and dirty too
        self.cache.extend(bytes(max(0, offset - len(self.cache))))
        end = offset + len(data)
        self.cache[offset:end] = data
        self._mark(first, end)

    def truncate(self, size: int) -> None:
        old = len(self.cache)
        if size > old:
            self.cache.extend(bytes(size - old))
            self._mark(old, size)
        else:
            del self.cache[size:]
            self._stamp += 1
            last = (size - 1) // SECTOR
            for sector in [sector for sector in self.dirty if sector > last]:
                del self.dirty[sector]

    def snapshot(self) -> Snapshot:
        sectors = {sector: (stamp, self._sector(sector)) for sector, stamp in self.dirty.items()}
        return Snapshot(self._stamp, len(self.cache), sectors)

    def land(self, snapshot: Snapshot) -> None:
        if snapshot.stamp >= self._size_landed:
            self._size_landed = snapshot.stamp
            self._resize_platter(snapshot.size)
        for sector, (stamp, content) in snapshot.sectors.items():
            if stamp >= self._landed.get(sector, 0):
                self._landed[sector] = stamp
                self._put(sector, content)
            if self.dirty.get(sector) == stamp:
                del self.dirty[sector]

    def lose(self, snapshot: Snapshot, random: Random) -> None:
        """A sync failed: its pages are clean now, on no platter, and evicted or not."""
        for sector, (stamp, _) in snapshot.sectors.items():
            if self.dirty.get(sector) != stamp:
                continue
            del self.dirty[sector]
            if random.random() < 0.5:
                start = sector * SECTOR
                size = len(self._sector(sector))
                old = bytes(self.platter[start : start + size])
                self.cache[start : start + size] = old.ljust(size, b"\0")

    def write_back(self, random: Random) -> None:
        """The kernel saves some dirty sectors early, because it can; never past the old end."""
        for sector in sorted(self.dirty):
            content = self._sector(sector)
            inside = sector * SECTOR + len(content) <= len(self.platter)
            if inside and random.random() < 0.3:
                self._put(sector, content)
                self._landed[sector] = self.dirty.pop(sector)

    def lose_power(self, random: Random) -> None:
        chance = random.choice((0.0, 0.2, 0.5, 0.8, 1.0))
        survivors = [sector for sector in sorted(self.dirty) if random.random() < chance]
        self._resize_platter(self._surviving_size(random))
        for sector in survivors:
            self._put(sector, self._sector(sector))
        self.cache = bytearray(self.platter)
        self.dirty.clear()

    def flip(self, bit: int) -> None:
        """Damage on the medium: the cache is assumed to have been dropped since."""
        offset, mask = bit // 8, 1 << (bit % 8)
        self.cache[offset] ^= mask
        if offset < len(self.platter):
            self.platter[offset] ^= mask

    def _surviving_size(self, random: Random) -> int:
        old, new = len(self.platter), len(self.cache)
        if new < old:
            return random.choice((old, new))
        return random.choice((old, new, random.randint(old, new)))

    def _mark(self, start: int, end: int) -> None:
        self._stamp += 1
        for sector in range(start // SECTOR, (end - 1) // SECTOR + 1):
            self.dirty[sector] = self._stamp

    def _sector(self, sector: int) -> bytes:
        return bytes(self.cache[sector * SECTOR : (sector + 1) * SECTOR])

    def _put(self, sector: int, content: bytes) -> None:
        start = sector * SECTOR
        room = max(0, len(self.platter) - start)
        content = content[:room]
        self.platter[start : start + len(content)] = content

    def _resize_platter(self, size: int) -> None:
        del self.platter[size:]
        self.platter.extend(bytes(size - len(self.platter)))


@dataclass(frozen=True, slots=True)
class Change:
    """One step in a directory; `sets` are applied together or not at all."""

    sets: tuple[tuple[str, Inode | None], ...]

    def directories(self) -> set[str]:
        return {parent_of(path) for path, _ in self.sets}

    def touches(self, other: Change) -> bool:
        return bool({path for path, _ in self.sets} & {path for path, _ in other.sets})


def parent_of(path: str) -> str:
    return path.rpartition("/")[0]


class Namespace:
    def __init__(self) -> None:
        self.names: dict[str, Inode] = {}
        self.directories = {""}
        self._durable: dict[str, Inode] = {}
        self._pending: list[Change] = []
        self._numbers = 0

    def new_inode(self) -> Inode:
        self._numbers += 1
        return Inode(self._numbers)

    def find(self, path: str) -> Inode:
        if path not in self.names:
            raise FileNotFoundError(2, "No such file or directory", path)
        return self.names[path]

    def create(self, path: str) -> Inode:
        if parent_of(path) not in self.directories:
            raise FileNotFoundError(2, "No such directory", parent_of(path))
        inode = self.new_inode()
        self._change((path, inode))
        return inode

    def rename(self, old: str, new: str) -> None:
        inode = self.find(old)
        if parent_of(new) not in self.directories:
            raise FileNotFoundError(2, "No such directory", parent_of(new))
        if old != new:
            self._change((old, None), (new, inode))

    def remove(self, path: str) -> None:
        self.find(path)
        self._change((path, None))

    def make_directory(self, path: str) -> None:
        parts = path.split("/")
        self.directories |= {"/".join(parts[: n + 1]) for n in range(len(parts))}

    def list(self, path: str) -> list[str]:
        inside = [p for p in (*self.names, *self.directories) if p and parent_of(p) == path]
        return sorted({name.rpartition("/")[2] for name in inside})

    def sync_directory(self, path: str) -> None:
        if path not in self.directories:
            raise FileNotFoundError(2, "No such directory", path)
        landing: list[Change] = []
        # From the newest back: a change cannot be durable before those it stands on.
        for change in reversed(self._pending):
            if path in change.directories() or any(change.touches(later) for later in landing):
                landing.append(change)
        for change in reversed(landing):
            self._pending.remove(change)
            _apply(change, self._durable)

    def lose_power(self, random: Random) -> None:
        chance = random.choice((0.0, 0.5, 0.5, 1.0))
        for change in self._pending:
            if random.random() < chance:
                _apply(change, self._durable)
        self._pending.clear()
        self.names = dict(self._durable)
        for path in sorted(self.names):
            self.names[path].lose_power(random)

    def used_bytes(self) -> int:
        return sum(len(inode.cache) for inode in self.names.values())

    def _change(self, *sets: tuple[str, Inode | None]) -> None:
        change = Change(sets)
        _apply(change, self.names)
        self._pending.append(change)


def _apply(change: Change, names: dict[str, Inode]) -> None:
    for path, inode in change.sets:
        if inode is None:
            names.pop(path, None)
            continue
        # A rename that survived without the one before it must not leave the file two names.
        for other in [name for name, known in names.items() if known is inode]:
            del names[other]
        names[path] = inode
