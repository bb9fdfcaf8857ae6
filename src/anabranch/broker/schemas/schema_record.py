"""One version of a schema, as it lies in the metadata store.

    /schemas/{tenant}/{namespace}/{encoded local name}/{version, 10 digits}

    {"type": "JSON", "name": "", "schema": base64, "properties": {}, "createdAtMs": 0}
    {"deleted": true, "createdAtMs": 0}

A record is written once and never changed, so whoever creates the next number has won the race
for it. Deleting a schema writes a record that says so: versions before it are dead, numbers go on,
since stored messages carry the old ones. Only when the topic goes do the records go.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final

from anabranch.broker.schemas.schema_info import SchemaInfo, SchemaType, parse_schema_type
from anabranch.errors import Corrupt, InvalidInput
from anabranch.topics.json_fields import Fields, encode_json, parse_json
from anabranch.topics.names import TopicName, encode_local_name

SCHEMAS_PATH: Final = "/schemas"
_VERSION_DIGITS: Final = 10


@dataclass(frozen=True, slots=True)
class StoredSchema:
    version: int
    schema: SchemaInfo
    created_ms: int
    is_deleted: bool = False  # then the schema is an empty one of type NONE


def schemas_path(topic: TopicName) -> str:
    """Segments and partitions share the schema of their topic, whatever its domain."""
    space = topic.namespace
    local = encode_local_name(topic.base.local)
    return f"{SCHEMAS_PATH}/{space.tenant}/{space.namespace}/{local}"


def version_path(path: str, version: int) -> str:
    return f"{path}/{version:0{_VERSION_DIGITS}d}"


def encode_stored(schema: SchemaInfo, now_ms: int) -> bytes:
    return encode_json(
        {
            "type": schema.type.value,
            "name": schema.name,
            "schema": base64.b64encode(schema.data).decode(),
            "properties": dict(schema.properties),
            "createdAtMs": now_ms,
        }
    )


def encode_deletion(now_ms: int) -> bytes:
    return encode_json({"deleted": True, "createdAtMs": now_ms})


def parse_stored(path: str, value: bytes) -> StoredSchema:
    """Corrupt for anything that `encode_stored` and `encode_deletion` would not write."""
    fields = Fields(parse_json(value, path), path)
    try:
        version = int(path.rpartition("/")[2])
        created_ms = fields.integer("createdAtMs")
        if fields.optional_flag("deleted"):
            return StoredSchema(version, SchemaInfo(SchemaType.NONE), created_ms, is_deleted=True)
        schema = SchemaInfo(
            parse_schema_type(fields.text("type")),
            base64.b64decode(fields.text("schema"), validate=True),
            fields.text("name", ""),
            fields.texts("properties"),
        )
    except (ValueError, InvalidInput) as error:
        raise Corrupt(f"{path}: {error}") from error
    return StoredSchema(version, schema, created_ms)
