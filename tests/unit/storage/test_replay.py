"""Replaying tells what every ledger holds, twice as well as once, and notices what cannot be."""

from __future__ import annotations

import json

import pytest
from crc32c import crc32c

from anabranch.errors import Corrupt
from anabranch.storage.ledger import Draft
from anabranch.storage.manifest import LedgerRow, Manifest
from anabranch.storage.record_codec import (
    CLOSE,
    CREATE,
    DELETE,
    GROUP,
    Run,
    pack_record,
    scan_journal,
)
from anabranch.storage.replay import Replay

SIZE = 48 + 20


def created(ledger: int) -> bytes:
    return pack_record(CREATE, 1, ledger, 0, 0, 0, json.dumps({"id": str(ledger)}).encode())


def entries(ledger: int, first: int, count: int) -> bytes:
    run = Run(ledger, first, 1)
    bodies = [b"%020d" % number for number in range(first, first + count)]
    run.pack([Draft(body, crc32c(body)) for body in bodies])
    return b"".join(chunk.data for chunk in run.finish())


def closed(ledger: int, last: int) -> bytes:
    return pack_record(CLOSE, 1, ledger, last, 20 * (last + 1), 0, b"")


def deleted(ledger: int) -> bytes:
    return pack_record(DELETE, 1, ledger, 0, 0, 0, b"")


def replay(journal: bytes, into: Replay | None = None) -> Replay:
    into = into or Replay(Manifest())
    for record in scan_journal(journal, 0, len(journal), 1).records:
        into.apply(journal, record)
    return into


def contents(replayed: Replay) -> dict[int, tuple[int, int, int | None]]:
    return {
        ledger: (found.entries, found.file_bytes, found.last_entry)
        for ledger, found in replayed.ledgers.items()
    }


STORY = (
    created(1) + entries(1, 0, 3) + created(2) + entries(2, 0, 2) + entries(1, 3, 2) + closed(1, 4)
)


def test_the_table_is_what_the_journal_says() -> None:
    found = replay(STORY)
    found.finish()
    assert contents(found) == {1: (5, 5 * SIZE, 4), 2: (2, 2 * SIZE, None)}
    assert found.ledgers[1].properties == {"id": "1"}
    assert found.next_ledger == 3
    offset, pieces = found.ledgers[1].take_pieces()
    assert offset == 0
    assert b"".join(pieces) == entries(1, 0, 5)


def test_replaying_twice_changes_nothing() -> None:
    found = replay(STORY)
    before = contents(found)
    found.ledgers[1].take_pieces()
    replay(STORY, found)
    assert contents(found) == before
    assert not found.ledgers[1].pieces


def test_entries_that_are_synced_are_not_written_again() -> None:
    manifest = Manifest(
        3, 1, (LedgerRow(1, 2, 2 * SIZE, None, {}), LedgerRow(2, 2, 2 * SIZE, None, {}))
    )
    found = replay(STORY, Replay(manifest))
    offset, pieces = found.ledgers[1].take_pieces()
    assert offset == 2 * SIZE
    assert b"".join(pieces) == entries(1, 2, 3)
    assert not found.ledgers[2].was_touched


def test_entries_of_a_ledger_that_is_not_known_belong_to_a_deleted_one() -> None:
    found = replay(entries(9, 5, 3) + closed(9, 7) + deleted(9))
    assert not found.ledgers
    assert found.pending_bytes == 0


def test_a_deleted_ledger_is_gone_with_all_it_had_collected() -> None:
    found = replay(STORY + deleted(1))
    assert list(found.ledgers) == [2]
    assert found.pending_bytes == 2 * SIZE
    assert found.next_ledger == 3


def test_ids_are_not_given_again_though_their_ledgers_are_gone() -> None:
    assert replay(created(7) + deleted(7)).next_ledger == 8


def test_a_gap_names_the_first_entry_that_is_lost() -> None:
    with pytest.raises(Corrupt) as caught:
        replay(created(1) + entries(1, 0, 3) + entries(1, 5, 1))
    assert (caught.value.ledger, caught.value.entry) == (1, 3)


@pytest.mark.parametrize(
    "end", [closed(1, 3), closed(1, 1), pack_record(CLOSE, 1, 1, 2, 7, 0, b"")]
)
def test_a_close_that_does_not_fit_the_entries_is_corrupt(end: bytes) -> None:
    with pytest.raises(Corrupt):
        replay(created(1) + entries(1, 0, 3) + end)


def test_entries_behind_the_end_of_a_closed_ledger_are_corrupt() -> None:
    with pytest.raises(Corrupt):
        replay(created(1) + entries(1, 0, 3) + closed(1, 2) + entries(1, 3, 1))


def test_a_closed_ledger_without_all_its_entries_is_corrupt() -> None:
    found = Replay(Manifest(2, 1, (LedgerRow(1, 2, 2 * SIZE, 4, {}),)))
    with pytest.raises(Corrupt) as caught:
        found.finish()
    assert (caught.value.ledger, caught.value.entry) == (1, 2)


def test_a_group_inside_a_group_is_corrupt() -> None:
    with pytest.raises(Corrupt, match="unknown kind"):
        replay(pack_record(GROUP, 1, 0, 0, 0, 0, b""))
