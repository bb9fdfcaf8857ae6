"""The record of a managed ledger, as stored."""

from __future__ import annotations

import json

import pytest

from anabranch.errors import Corrupt, InvalidInput
from anabranch.storage.ledger import LedgerEnd
from anabranch.storage.managed_record import (
    ManagedRecord,
    encode_managed_record,
    parse_managed_record,
)
from anabranch.storage.trimming import BacklogAction, LedgerInfo, LedgerPolicy
from anabranch.topics.positions import EARLIEST, Position

RECORD = ManagedRecord(
    epoch=7,
    owner="broker-1",
    ledgers=(LedgerInfo(12, 50, 5000, 1_700_000_000_000), LedgerInfo(15)),
    cursor_ledger=LedgerInfo(13),
    sealed_at_ms=0,
    controller_epoch=3,
    trimmed_to=Position(9, 49),
    policy=LedgerPolicy(5, -1, 60, 1 << 30, 3600, BacklogAction.EVICT),
    properties={"k": "v"},
)


def test_a_record_survives_being_stored() -> None:
    assert parse_managed_record(encode_managed_record(RECORD)) == RECORD
    assert parse_managed_record(encode_managed_record(ManagedRecord())) == ManagedRecord()


def test_the_fields_are_those_of_the_documentation() -> None:
    value = json.loads(encode_managed_record(RECORD))
    assert value["ledgers"][0] == {
        "id": 12, "entries": 50, "size": 5000, "closedAt": 1_700_000_000_000,
    }  # fmt: skip
    assert value["cursorLedger"]["id"] == 13
    assert value["terminatedAt"] == 0
    assert value["trimmedTo"] == {"ledger": 9, "entry": 49}
    assert value["policy"]["backlogAction"] == "consumer_backlog_eviction"


def test_fields_that_came_later_have_defaults() -> None:
    old = parse_managed_record(b'{"epoch": 2, "ledgers": []}')
    assert old == ManagedRecord(epoch=2)
    assert old.trimmed_to == EARLIEST


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b"\xff", b'{"epoch": "x", "ledgers": []}', b'{"epoch": 1, "ledgers": [1]}'],
)
def test_anything_else_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt, match="managed ledger record"):
        parse_managed_record(data)


def test_ends_close_what_is_open_and_only_that() -> None:
    closed = RECORD.with_ends(
        {12: LedgerEnd(1, 1), 15: LedgerEnd(-1, 0), 13: LedgerEnd(4, 99)}, 1_800_000_000_000
    )
    assert closed.ledgers == (RECORD.ledgers[0], LedgerInfo(15, 0, 0, 1_800_000_000_000))
    assert closed.cursor_ledger == LedgerInfo(13, 5, 99, 1_800_000_000_000)
    assert closed.unclosed == []


def test_a_trimmed_record_remembers_how_far() -> None:
    trimmed = RECORD.without([12])
    assert [info.ledger for info in trimmed.ledgers] == [15]
    assert trimmed.trimmed_to == Position(12, 49)


def test_a_policy_below_no_limit_is_refused() -> None:
    with pytest.raises(InvalidInput, match="use -1 for no limit"):
        LedgerPolicy(retention_minutes=-2)
