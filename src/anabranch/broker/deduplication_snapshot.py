"""A deduplication snapshot as bytes: what each producer had stored, up to a position.

JSON in UTF-8, names sorted, so that equal states are equal bytes:

    {"version": 1, "position": [<ledger>, <entry>], "producers": {"<name>": <highest id>, ...}}

A topic that loads takes the last snapshot and replays the entries behind its position.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from anabranch.errors import Corrupt
from anabranch.topics.positions import Position

VERSION = 1


@dataclass(frozen=True, slots=True)
class Snapshot:
    position: Position
    producers: Mapping[str, int]


def encode_snapshot(snapshot: Snapshot) -> bytes:
    content = {
        "version": VERSION,
        "position": list(snapshot.position),
        "producers": dict(snapshot.producers),
    }
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def parse_snapshot(data: bytes) -> Snapshot:
    try:
        content = json.loads(data)
        version = content["version"]
        if version != VERSION:
            raise Corrupt(f"deduplication snapshot of version {version}; {VERSION} is understood")
        ledger, entry = content["position"]
        producers = content["producers"]
        numbers = [ledger, entry, *producers.values()]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"deduplication snapshot of {len(data)} bytes is damaged: {error}") from error
    if not all(type(number) is int for number in numbers):
        raise Corrupt(f"deduplication snapshot of {len(data)} bytes has ids that are no integers")
    return Snapshot(Position(ledger, entry), producers)
