"""Laws of the disk: what is synced survives, what is not may vanish, no byte is invented."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulation.platter import SECTOR, Inode, Namespace

SEEDS = range(200)
writes = st.tuples(st.integers(0, 3000), st.binary(min_size=1, max_size=1500))


def states(change: list[tuple[int, bytes]], synced: int) -> list[set[bytes]]:
    """Per sector: every content it had since the sync, and zeros where it did not exist then."""
    inode = Inode(1)
    found: list[set[bytes]] = [set() for _ in range(20)]
    for index, (offset, data) in enumerate(change):
        if index >= synced:
            remember(inode, found)
        inode.write(offset, data)
    remember(inode, found)
    return found


def remember(inode: Inode, found: list[set[bytes]]) -> None:
    for sector, contents in enumerate(found):
        contents.add(bytes(inode.cache[sector * SECTOR : (sector + 1) * SECTOR]))


@given(st.lists(writes, max_size=12), st.integers(0, 12), st.integers(0, 1 << 32))
@settings(deadline=None, max_examples=300)
def test_after_a_power_cut_every_sector_is_an_old_or_a_new_one(
    change: list[tuple[int, bytes]], synced: int, seed: int
) -> None:
    inode, random = Inode(1), Random(seed)
    for index, (offset, data) in enumerate(change):
        if index == synced:
            inode.land(inode.snapshot())
        inode.write(offset, data)
        if random.random() < 0.3:
            inode.write_back(random)
    inode.lose_power(random)
    for sector, allowed in enumerate(states(change, synced)):
        found = bytes(inode.cache[sector * SECTOR : (sector + 1) * SECTOR])
        # A file that grew by half ends inside a sector, or has zeros where data should be.
        padded = {content.ljust(SECTOR, b"\0")[: len(found)] for content in allowed}
        assert found in padded | {bytes(len(found))}


@given(st.lists(writes, min_size=1, max_size=8), st.lists(writes, max_size=4), st.integers(0, 99))
@settings(deadline=None, max_examples=200)
def test_what_is_synced_survives_a_power_cut_wherever_nothing_was_written_after(
    before: list[tuple[int, bytes]], after: list[tuple[int, bytes]], seed: int
) -> None:
    inode = Inode(1)
    for offset, data in before:
        inode.write(offset, data)
    inode.land(inode.snapshot())
    kept = bytes(inode.cache)
    for offset, data in after:
        inode.write(offset, data)
    touched = set(inode.dirty)
    inode.lose_power(Random(seed))
    assert len(inode.cache) >= len(kept)
    for sector in range(len(kept) // SECTOR + 1):
        if sector not in touched:
            part = slice(sector * SECTOR, min((sector + 1) * SECTOR, len(kept)))
            assert inode.cache[part] == kept[part]


def test_unsynced_sectors_vanish_in_some_runs_survive_in_others_and_tear_in_some() -> None:
    outcomes = set()
    for seed in SEEDS:
        inode = Inode(1)
        inode.write(0, b"a" * 2 * SECTOR)
        inode.land(inode.snapshot())
        inode.write(0, b"b" * 2 * SECTOR)
        inode.lose_power(Random(seed))
        outcomes.add((inode.cache[:1] + inode.cache[SECTOR : SECTOR + 1]).decode())
    assert outcomes == {"aa", "bb", "ab", "ba"}


def test_an_unsynced_size_survives_or_not_or_half() -> None:
    sizes = set()
    for seed in SEEDS:
        inode = Inode(1)
        inode.write(0, b"a" * 10)
        inode.land(inode.snapshot())
        inode.write(10, b"b" * 10)
        inode.lose_power(Random(seed))
        sizes.add(len(inode.cache))
    assert {10, 20} < sizes <= set(range(10, 21))


def test_an_unsynced_truncation_may_be_undone() -> None:
    contents = set()
    for seed in SEEDS:
        inode = Inode(1)
        inode.write(0, b"abc")
        inode.land(inode.snapshot())
        inode.truncate(0)
        inode.lose_power(Random(seed))
        contents.add(bytes(inode.cache))
    assert contents == {b"abc", b""}


def test_a_sync_covers_what_was_written_before_it_began_only() -> None:
    contents = set()
    for seed in SEEDS:
        inode = Inode(1)
        inode.write(0, b"first")
        snapshot = inode.snapshot()
        inode.write(0, b"later")
        inode.land(snapshot)
        inode.lose_power(Random(seed))
        contents.add(bytes(inode.cache))
    assert contents == {b"first", b"later"}


def test_an_older_sync_that_ends_later_takes_nothing_back() -> None:
    inode = Inode(1)
    inode.write(0, b"first")
    old = inode.snapshot()
    inode.write(0, b"later and longer")
    inode.land(inode.snapshot())
    inode.land(old)
    inode.lose_power(Random(1))
    assert inode.cache == b"later and longer"


def test_after_a_failed_sync_the_next_one_succeeds_and_saves_nothing() -> None:
    kept_in_cache = set()
    for seed in SEEDS:
        inode, random = Inode(1), Random(seed)
        inode.write(0, b"a" * SECTOR)
        inode.land(inode.snapshot())
        inode.write(0, b"b" * SECTOR)
        inode.lose(inode.snapshot(), random)
        kept_in_cache.add(bytes(inode.cache[:1]))
        inode.land(inode.snapshot())
        inode.lose_power(random)
        assert inode.cache == b"a" * SECTOR
    assert kept_in_cache == {b"a", b"b"}


def test_a_flip_changes_one_bit_for_every_later_reader() -> None:
    inode = Inode(1)
    inode.write(0, b"\0\0\0")
    inode.land(inode.snapshot())
    inode.flip(10)
    assert inode.read(0, 3) == b"\0\x04\0"
    inode.lose_power(Random(1))
    assert inode.read(0, 3) == b"\0\x04\0"


def outcomes_of(change: str) -> set[str]:
    """The names after a power cut, over many seeds; `change` is a script of steps."""
    found = set()
    for seed in SEEDS:
        names = Namespace()
        for step in change.split(", "):
            verb, *paths = step.split()
            getattr(names, verb)(*(path.strip("/") for path in paths))
        names.lose_power(Random(seed))
        found.add(" ".join(sorted(names.names)))
    return found


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("create a", {"", "a"}),
        ("create a, sync_directory /", {"a"}),
        ("create a, sync_directory /, remove a", {"", "a"}),
        ("create a, sync_directory /, remove a, sync_directory /", {""}),
        ("create a, sync_directory /, rename a b", {"a", "b"}),
        ("create a, sync_directory /, rename a b, sync_directory /", {"b"}),
        ("create a, sync_directory /, rename a b, rename b c", {"a", "b", "c"}),
        ("create a, create b", {"", "a", "b", "a b"}),
        # The rename stands on the creation: it cannot be durable alone.
        ("make_directory d, create a, rename a d/b, sync_directory d", {"d/b"}),
    ],
)
def test_names_survive_a_power_cut_as_their_directory_was_synced(
    change: str, expected: set[str]
) -> None:
    assert outcomes_of(change) == expected


def test_a_replaced_file_is_the_old_or_the_new_one_never_gone() -> None:
    contents = set()
    for seed in SEEDS:
        names = Namespace()
        for path, content in (("file", b"old"), ("new", b"new")):
            inode = names.create(path)
            inode.write(0, content)
            inode.land(inode.snapshot())
        names.sync_directory("")
        names.rename("new", "file")
        names.lose_power(Random(seed))
        contents.add(bytes(names.find("file").cache))
    assert contents == {b"old", b"new"}
