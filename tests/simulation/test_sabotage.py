"""The oracles can fail: each is shown a broken system and must say so, for some seed of a few.

A checker that nothing can displease proves nothing. Every way to break a promise here is one that
somebody has shipped: a disk that says "synced", an engine that answers too early, a fence that
does not hold, a receipt for what is still in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from crc32c import crc32c

from anabranch.metadata import election
from anabranch.runtime.world import Buffer
from anabranch.storage.cursor_log import CursorLog
from anabranch.storage.ledger import Draft, Entry, LedgerEnd
from anabranch.storage.memory_ledger import MemoryLedgerStore
from tests.simulation.catalogue import WORKLOADS, failures_of
from tests.simulation.disk import DiskFile, SimulatedDisk
from tests.simulation.network import Pipe
from tests.simulation.workloads.ledger_history import LedgerHistory

SEEDS = range(40)


def stories(workload: str, seeds: range = SEEDS) -> str:
    return "\n".join(failure.story for failure in failures_of(WORKLOADS[workload], seeds))


@pytest.mark.parametrize(
    ("workload", "complaint"),
    [
        ("storage-crashes", "is gone"),
        ("sqlite-crashes", "not (b'"),
        ("managed-crashes", "lost|forgot|Corrupt|NotFound"),
    ],
)
def test_a_disk_that_lies_about_syncs_is_found_out(
    workload: str, complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedDisk, "sync", lambda *ignored: None)
    monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda *ignored: None)
    found = stories(workload)
    assert any(word in found for word in complaint.split("|")), found


def test_a_journal_that_is_not_synced_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    write = DiskFile.write

    async def write_only(
        self: DiskFile, offset: int, pieces: Sequence[Buffer], *, sync: bool = False
    ) -> None:
        await write(self, offset, pieces, sync=sync and "/journal/" not in self._path)

    monkeypatch.setattr(DiskFile, "write", write_only)
    found = stories("storage-crashes")
    assert "lost entries" in found or "is gone" in found, found


@pytest.mark.parametrize(
    ("found", "complaint"),
    [
        ([b"one", b"two"], ""),
        ([b"one", b"tw0"], "not"),
        ([b"one", b"two", b"six"], "invented"),
    ],
)
def test_an_entry_that_nobody_appended_there_is_found_out(
    found: list[bytes], complaint: str
) -> None:
    history = LedgerHistory(7, [Draft(body, crc32c(body)) for body in (b"one", b"two")])
    entries = [Entry(7, number, body, 0, 1) for number, body in enumerate(found)]
    if complaint:
        with pytest.raises(AssertionError, match=complaint):
            history.check(0, entries)
    else:
        history.check(0, entries)
        assert history.sure == 2


@pytest.mark.parametrize("last_entry", [0, 2])
def test_a_closed_ledger_that_changes_is_found_out(last_entry: int) -> None:
    history = LedgerHistory(7, [Draft(body, crc32c(body)) for body in (b"one", b"two", b"six")])
    history.confirm(1)
    history.finish(LedgerEnd(1, 6))
    with pytest.raises(AssertionError, match="ended at"):
        history.finish(LedgerEnd(last_entry, 3 * last_entry + 3))


def test_two_leaders_of_one_epoch_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def always_one(store: Any, path: str) -> int:
        await asyncio.sleep(0)
        return 1

    monkeypatch.setattr(election, "next_epoch", always_one)
    assert "epoch 1 has two leaders" in stories("elections")


def test_a_recovery_that_does_not_fence_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def only_look(self: MemoryLedgerStore, ledger: int) -> LedgerEnd:
        await asyncio.sleep(0)
        stored = self.disk.get(ledger)
        return LedgerEnd(len(stored.drafts) - 1, stored.length_bytes)

    monkeypatch.setattr(MemoryLedgerStore, "recover", only_look)
    found = stories("managed-zombies")
    assert "lost" in found or "asked for after" in found, found


def test_a_receipt_without_a_write_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    async def promise(self: CursorLog, *args: Any) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(CursorLog, "persist", promise)
    found = stories("managed-crashes")
    assert "forgot" in found or "no cursor" in found, found


def test_a_network_that_changes_a_byte_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Pipe.take

    def spoil(self: Pipe) -> bytes | None:
        piece = take(self)
        if piece and self._fabric.random.random() < 0.01:
            return piece[:-1] + bytes([piece[-1] ^ 1])
        return piece

    monkeypatch.setattr(Pipe, "take", spoil)
    found = stories("echo")
    assert "has changed on its way" in found or "nobody sent" in found, found
