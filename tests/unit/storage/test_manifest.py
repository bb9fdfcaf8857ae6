"""The manifest comes back as it was written, whole, or not at all."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import Corrupt
from anabranch.runtime.system import system_world
from anabranch.storage.manifest import (
    LedgerRow,
    Manifest,
    encode_manifest,
    load_manifest,
    parse_manifest,
    save_manifest,
)
from tests.faulty_disk import faulty

numbers = st.integers(0, 2**63 - 1)
rows = st.builds(
    LedgerRow,
    numbers,
    numbers,
    numbers,
    st.none() | st.integers(-1, 2**62),
    st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3),
)
manifests = st.builds(Manifest, numbers, numbers, st.lists(rows, max_size=5).map(tuple))
SOME = Manifest(9, 4, (LedgerRow(3, 10, 1480, None, {"a": "ü"}), LedgerRow(5, 0, 0, -1, {})))


@settings(max_examples=100, deadline=None)
@given(manifests)
def test_it_reads_back_as_written(manifest: Manifest) -> None:
    assert parse_manifest(encode_manifest(manifest)) == manifest


def test_no_damaged_manifest_is_taken() -> None:
    data = encode_manifest(SOME)
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << (bit % 8)
        with pytest.raises(Corrupt):
            parse_manifest(bytes(flipped))
    for size in range(len(data)):
        with pytest.raises(Corrupt):
            parse_manifest(data[:size])


def test_there_is_none_in_a_fresh_directory(tmp_path: Path) -> None:
    assert asyncio.run(load_manifest(system_world(tmp_path).disk, "manifest")) is None


def test_a_failed_save_leaves_the_old_one(tmp_path: Path) -> None:
    async def scenario() -> None:
        world, disk = faulty(system_world(tmp_path))
        await save_manifest(world.disk, "manifest", SOME)
        for calls in range(20):
            fault = disk.fail(lambda what, path: "manifest" in path, after=calls)
            try:
                await save_manifest(world.disk, "manifest", Manifest())
            except OSError:
                disk.faults.clear()
                assert await load_manifest(world.disk, "manifest") == SOME
            else:
                break
        assert fault.hits == 0
        assert calls >= 3
        disk.faults.clear()
        assert await load_manifest(world.disk, "manifest") == Manifest()

    asyncio.run(scenario())


def test_a_longer_leftover_does_not_shine_through(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = system_world(tmp_path).disk
        (tmp_path / "manifest.new").write_bytes(b"x" * 10_000)
        await save_manifest(disk, "manifest", SOME)
        assert await load_manifest(disk, "manifest") == SOME

    asyncio.run(scenario())
