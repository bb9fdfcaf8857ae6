"""The record of a managed ledger, and the few calls by which it is kept.

    {"epoch": 7, "owner": "broker-1", "terminatedAt": 0, "controllerEpoch": 3,
     "ledgers": [{"id": 12, "entries": 50000, "size": 51200000, "closedAt": 1700000000000},
                 {"id": 15, "entries": 0, "size": 0, "closedAt": 0}],
     "cursorLedger": {"id": 13, "entries": 0, "size": 0, "closedAt": 0},
     "trimmedTo": {"ledger": 9, "entry": 49999},
     "policy": {"retentionMinutes": 0, "retentionBytes": 0, "ttlSeconds": -1,
                "maxBacklogBytes": -1, "maxBacklogSeconds": -1,
                "backlogAction": "producer_request_hold"},
     "properties": {}}

`closedAt` 0 marks a ledger that must be recovered before anybody else may write. `trimmedTo` is
the last entry that was dropped; it is what "the end" means when no ledger is left. Every write is
a compare-and-set, so a record whose epoch is ours was written by us.

Storage may not know the metadata store: `ManagedLedgerRecords` is what it asks of one.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from anabranch.errors import Corrupt
from anabranch.storage.ledger import LedgerEnd
from anabranch.storage.trimming import BacklogAction, LedgerInfo, LedgerPolicy
from anabranch.topics.positions import EARLIEST, Position


@dataclass(frozen=True, slots=True)
class ManagedRecord:
    epoch: int = 0  # one more with every load; only grows
    owner: str = ""  # whoever loaded it last; for people, never for safety
    ledgers: tuple[LedgerInfo, ...] = ()  # by rising id; only the last may be open
    cursor_ledger: LedgerInfo | None = None
    sealed_at_ms: int = 0  # 0: takes entries
    controller_epoch: int = 0  # the largest that ever gave an order; only grows
    trimmed_to: Position = EARLIEST
    policy: LedgerPolicy = field(default_factory=LedgerPolicy)
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_sealed(self) -> bool:
        return self.sealed_at_ms != 0

    @property
    def unclosed(self) -> list[LedgerInfo]:
        return [info for info in self.ledgers if info.is_open]

    def with_ends(self, ends: Mapping[int, LedgerEnd], now_ms: int) -> ManagedRecord:
        """These ledgers are closed now; the cursor ledger may be among them."""

        def closed(info: LedgerInfo) -> LedgerInfo:
            end = ends.get(info.ledger)
            if end is None or not info.is_open:
                return info
            return LedgerInfo(info.ledger, end.last_entry + 1, end.length_bytes, max(now_ms, 1))

        cursors = self.cursor_ledger
        return replace(
            self,
            ledgers=tuple(map(closed, self.ledgers)),
            cursor_ledger=closed(cursors) if cursors is not None else None,
        )

    def with_ledger(self, ledger: int) -> ManagedRecord:
        assert not self.unclosed, f"ledger {ledger} added behind an open one: {self.unclosed}"
        assert not self.ledgers or self.ledgers[-1].ledger < ledger
        return replace(self, ledgers=(*self.ledgers, LedgerInfo(ledger)))

    def without(self, going: Collection[int]) -> ManagedRecord:
        gone = [info for info in self.ledgers if info.ledger in going]
        return replace(
            self,
            ledgers=tuple(info for info in self.ledgers if info.ledger not in going),
            trimmed_to=max([self.trimmed_to, *(info.last for info in gone)]),
        )


class ManagedLedgerRecords(Protocol):
    """Names are those of topics and segments. Versions are opaque; compare for equality only."""

    async def load(self, name: str) -> tuple[ManagedRecord, int] | None: ...

    async def save(self, name: str, record: ManagedRecord, expected: int) -> int:
        """Compare-and-set; -1: must not exist yet. The new version; BadVersion if it lost.

        Unavailable leaves open whether it was written. No version is given twice to one name,
        not even after a deletion: an owner that slept through it must not match by chance.
        """
        ...

    async def delete(self, name: str, expected: int) -> None:
        """The record and the names below it. Idempotent; BadVersion if it was changed."""
        ...

    async def cursor_names(self, name: str) -> list[str]:
        """Sorted; readable by anybody, also while the ledger is not loaded."""
        ...

    async def add_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        """By the owner of this epoch. Idempotent."""
        ...

    async def remove_cursor_name(self, name: str, cursor: str, epoch: int) -> None:
        """By the owner of this epoch. Idempotent; what a later owner has listed stays."""
        ...


def encode_managed_record(record: ManagedRecord) -> bytes:
    policy = record.policy
    cursors = record.cursor_ledger
    return json.dumps(
        {
            "epoch": record.epoch,
            "owner": record.owner,
            "ledgers": [_info_to_json(info) for info in record.ledgers],
            "cursorLedger": None if cursors is None else _info_to_json(cursors),
            "terminatedAt": record.sealed_at_ms,
            "controllerEpoch": record.controller_epoch,
            "trimmedTo": record.trimmed_to._asdict(),
            "policy": {
                "retentionMinutes": policy.retention_minutes,
                "retentionBytes": policy.retention_bytes,
                "ttlSeconds": policy.ttl_seconds,
                "maxBacklogBytes": policy.max_backlog_bytes,
                "maxBacklogSeconds": policy.max_backlog_seconds,
                "backlogAction": policy.backlog_action.value,
            },
            "properties": dict(record.properties),
        }
    ).encode()


def parse_managed_record(data: bytes) -> ManagedRecord:
    """Corrupt if it is not a record of ours; fields that came later have their defaults."""
    try:
        return _record_from_json(json.loads(data))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Corrupt(f"managed ledger record {data[:200]!r}: {error!r}") from error


def _record_from_json(value: dict[str, Any]) -> ManagedRecord:
    cursors = value.get("cursorLedger")
    trimmed = value.get("trimmedTo")
    return ManagedRecord(
        epoch=int(value["epoch"]),
        owner=str(value.get("owner", "")),
        ledgers=tuple(_info_from_json(info) for info in value["ledgers"]),
        cursor_ledger=None if cursors is None else _info_from_json(cursors),
        sealed_at_ms=int(value.get("terminatedAt", 0)),
        controller_epoch=int(value.get("controllerEpoch", 0)),
        trimmed_to=Position(int(trimmed["ledger"]), int(trimmed["entry"])) if trimmed else EARLIEST,
        policy=_policy_from_json(value.get("policy", {})),
        properties={str(key): str(text) for key, text in value.get("properties", {}).items()},
    )


def _policy_from_json(value: dict[str, Any]) -> LedgerPolicy:
    default = LedgerPolicy()
    return LedgerPolicy(
        retention_minutes=int(value.get("retentionMinutes", default.retention_minutes)),
        retention_bytes=int(value.get("retentionBytes", default.retention_bytes)),
        ttl_seconds=int(value.get("ttlSeconds", default.ttl_seconds)),
        max_backlog_bytes=int(value.get("maxBacklogBytes", default.max_backlog_bytes)),
        max_backlog_seconds=int(value.get("maxBacklogSeconds", default.max_backlog_seconds)),
        backlog_action=BacklogAction(value.get("backlogAction", default.backlog_action.value)),
    )


def _info_to_json(info: LedgerInfo) -> dict[str, int]:
    return {
        "id": info.ledger,
        "entries": info.entries,
        "size": info.size_bytes,
        "closedAt": info.closed_at_ms,
    }


def _info_from_json(value: dict[str, Any]) -> LedgerInfo:
    return LedgerInfo(
        int(value["id"]), int(value["entries"]), int(value["size"]), int(value["closedAt"])
    )
