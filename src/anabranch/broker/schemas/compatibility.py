"""May this schema follow those? The strategies, as pure functions of schemas.

"New can read old" is BACKWARD, "old can read new" FORWARD, both FULL; TRANSITIVE asks it of every
live version instead of the latest. How one schema reads another is for avro_rules.py and
protobuf_rules.py to say. Two rules stand above the strategies: the type of a topic's schema does
not change, and ALWAYS_COMPATIBLE means what it says, the type included.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from anabranch.broker.schemas.avro_rules import (
    avro_obstacle,
    legacy_json_id,
    parse_avro,
    same_avro,
)
from anabranch.broker.schemas.protobuf_rules import parse_protobuf, protobuf_obstacle
from anabranch.broker.schemas.schema_info import (
    SchemaInfo,
    SchemaType,
    check_size,
    parse_key_value,
)
from anabranch.errors import IncompatibleSchema, InvalidInput


class Strategy(Enum):
    UNDEFINED = "UNDEFINED"
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"

    @property
    def resolved(self) -> Strategy:
        return Strategy.FULL if self is Strategy.UNDEFINED else self

    @property
    def is_transitive(self) -> bool:
        return self in _TRANSITIVE


_TRANSITIVE = frozenset(
    {Strategy.BACKWARD_TRANSITIVE, Strategy.FORWARD_TRANSITIVE, Strategy.FULL_TRANSITIVE}
)
_NEW_READS_OLD = frozenset(
    {Strategy.BACKWARD, Strategy.BACKWARD_TRANSITIVE, Strategy.FULL, Strategy.FULL_TRANSITIVE}
)
_OLD_READS_NEW = frozenset(
    {Strategy.FORWARD, Strategy.FORWARD_TRANSITIVE, Strategy.FULL, Strategy.FULL_TRANSITIVE}
)


def check_well_formed(schema: SchemaInfo) -> None:
    """InvalidInput unless the data is what the type says it is."""
    check_size(schema)
    if schema.type is SchemaType.KEY_VALUE:
        parts = parse_key_value(schema)
        check_well_formed(parts.key)
        check_well_formed(parts.value)
    elif schema.type is SchemaType.PROTOBUF_NATIVE:
        parse_protobuf(schema.data)
    elif schema.type is SchemaType.JSON:
        _check_json(schema.data)
    elif schema.type.is_avro_based:
        _check_avro(schema)
    elif schema.type.is_primitive and not schema.type.is_absent:
        _check_no_data(schema)


def same_schema(one: SchemaInfo, other: SchemaInfo) -> bool:
    """Whether they share a version. Name and properties do not count, but a key-value's parts."""
    if one.type is not other.type:
        return False
    if one.type is SchemaType.KEY_VALUE:
        first, second = parse_key_value(one), parse_key_value(other)
        return (
            first.encoding is second.encoding
            and same_schema(first.key, second.key)
            and same_schema(first.value, second.value)
        )
    if one.type.is_avro_based:
        return same_avro(one.data, other.data)
    return one.type.is_primitive or one.data == other.data


def check_evolution(live: Sequence[SchemaInfo], new: SchemaInfo, strategy: Strategy) -> None:
    """IncompatibleSchema if `new` may not follow the live versions, which are oldest first."""
    strategy = strategy.resolved
    if strategy is Strategy.ALWAYS_COMPATIBLE or not live:
        return
    versions = live if strategy.is_transitive else live[-1:]
    for old in versions:
        _check_type(old, new)
        if strategy is Strategy.ALWAYS_INCOMPATIBLE:
            if not same_schema(old, new):
                raise IncompatibleSchema("the strategy ALWAYS_INCOMPATIBLE allows no change")
            continue
        if strategy in _NEW_READS_OLD:
            _check_reads(new, old, f"{strategy.value}: the new schema cannot read the old one")
        if strategy in _OLD_READS_NEW:
            _check_reads(old, new, f"{strategy.value}: the old schema cannot read the new one")


def check_consumer(live: Sequence[SchemaInfo], schema: SchemaInfo, strategy: Strategy) -> None:
    """IncompatibleSchema if a consumer of this schema could not read the topic.

    A consumer only reads: what the strategy promises the future does not concern it, how much of
    the past is guaranteed to be alike does. Forward strategies guarantee nothing about that, so
    there only the latest version counts.
    """
    strategy = strategy.resolved
    if strategy is Strategy.ALWAYS_COMPATIBLE:
        return
    if not live:
        raise IncompatibleSchema("the topic has no schema that a consumer's could be checked with")
    everything = (Strategy.BACKWARD_TRANSITIVE, Strategy.FULL_TRANSITIVE)
    versions = live if strategy in everything else live[-1:]
    for old in versions:
        _check_type(old, schema)
        if strategy is Strategy.ALWAYS_INCOMPATIBLE:
            check_evolution([old], schema, strategy)
        else:
            _check_reads(schema, old, "the consumer's schema cannot read the topic's")


def reading_obstacle(reader: SchemaInfo, writer: SchemaInfo) -> str | None:
    """Why a reader could not read what a writer of the other schema wrote; None if it can."""
    if reader.type is not writer.type:
        return f"type {reader.type.value} is not the writer's {writer.type.value}"
    if reader.type is SchemaType.KEY_VALUE:
        return _key_value_obstacle(reader, writer)
    if reader.type is SchemaType.JSON:
        return _json_obstacle(reader.data, writer.data)
    if reader.type.is_avro_based:
        return avro_obstacle(reader.data, writer.data)
    if reader.type is SchemaType.PROTOBUF_NATIVE:
        return protobuf_obstacle(reader.data, writer.data)
    return None


def _check_type(old: SchemaInfo, new: SchemaInfo) -> None:
    if old.type is not new.type:
        raise IncompatibleSchema(
            f"the topic's schema has type {old.type.value}, the new one {new.type.value}; "
            f"only the strategy ALWAYS_COMPATIBLE lets the type change"
        )


def _check_reads(reader: SchemaInfo, writer: SchemaInfo, sentence: str) -> None:
    if same_schema(reader, writer):
        return
    obstacle = reading_obstacle(reader, writer)
    if obstacle:
        raise IncompatibleSchema(f"{sentence}: {obstacle}")


def _key_value_obstacle(reader: SchemaInfo, writer: SchemaInfo) -> str | None:
    ours, theirs = parse_key_value(reader), parse_key_value(writer)
    if ours.encoding is not theirs.encoding:
        return f"key-value encoding {ours.encoding.value} is not {theirs.encoding.value}"
    for what, one, other in (("key", ours.key, theirs.key), ("value", ours.value, theirs.value)):
        obstacle = None if same_schema(one, other) else reading_obstacle(one, other)
        if obstacle:
            return f"{what}: {obstacle}"
    return None


def _json_obstacle(reader: bytes, writer: bytes) -> str | None:
    ids = _old_form_id(reader), _old_form_id(writer)
    if None not in ids:
        return None if ids[0] == ids[1] else f"old JSON schema {ids[0]!r} is not {ids[1]!r}"
    if ids != (None, None):
        # Old and new form of perhaps the same class: nobody can tell, and upgrades must pass.
        return None
    return avro_obstacle(reader, writer)


def _old_form_id(data: bytes) -> str | None:
    try:
        parse_avro(data)
    except InvalidInput:
        return legacy_json_id(data)
    return None


def _check_avro(schema: SchemaInfo) -> None:
    if parse_avro(schema.data).type == "union" and schema.type is SchemaType.AVRO:
        raise InvalidInput("an Avro schema that is a union as a whole cannot be a topic's schema")


def _check_no_data(schema: SchemaInfo) -> None:
    # Python clients write the data they do not have as JSON.
    if schema.data not in (b"", b"null"):
        raise InvalidInput(
            f"a schema of type {schema.type.value} has no data, this one has "
            f"{len(schema.data)} bytes"
        )


def _check_json(data: bytes) -> None:
    try:
        parse_avro(data)
    except InvalidInput:
        if legacy_json_id(data) is None:
            raise
