from __future__ import annotations

import pytest

from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType
from anabranch.broker.schemas.schema_record import (
    encode_deletion,
    encode_stored,
    parse_stored,
    schemas_path,
    version_path,
)
from anabranch.errors import Corrupt
from anabranch.topics.names import parse_topic_name

PATH = "/schemas/t/n/x/0000000003"


@pytest.mark.parametrize(
    "name",
    [
        "persistent://t/n/a b",
        "persistent://t/n/a b-partition-7",
        "non-persistent://t/n/a b",
        "topic://t/n/a b",
        "segment://t/n/a b/0000-7fff-1",
    ],
)
def test_all_names_of_a_topic_share_one_schema(name: str) -> None:
    assert schemas_path(parse_topic_name(name)) == "/schemas/t/n/a+b"


def test_versions_sort_as_they_count() -> None:
    paths = [version_path("/schemas/t/n/x", version) for version in (0, 9, 10, 999)]
    assert paths == sorted(paths)
    assert paths[0] == "/schemas/t/n/x/0000000000"


def test_record_gives_back_what_was_stored() -> None:
    schema = SchemaInfo(SchemaType.EXTERNAL, b"\0\xff", "näme", {"k": "v"})
    stored = parse_stored(PATH, encode_stored(schema, 5))
    assert (stored.version, stored.schema, stored.created_ms) == (3, schema, 5)
    assert not stored.is_deleted


def test_deletion_is_a_version_without_schema() -> None:
    stored = parse_stored(PATH, encode_deletion(5))
    assert (stored.version, stored.is_deleted, stored.schema.data) == (3, True, b"")


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"[]",
        b"{}",
        b'{"type": "NOPE", "schema": "", "createdAtMs": 0}',
        b'{"type": "AVRO", "schema": "!", "createdAtMs": 0}',
        b'{"type": "AVRO", "createdAtMs": 0}',
    ],
)
def test_damaged_record_says_where(value: bytes) -> None:
    with pytest.raises(Corrupt, match=PATH):
        parse_stored(PATH, value)
