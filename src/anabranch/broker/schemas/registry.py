"""The schemas of topics and their versions, in the metadata store.

To register is to create the record of the next number: of several that try at the same time one
succeeds, and the others look at what it registered before they try again, so two schemas that do
not go together are never both accepted. A schema that is there already keeps its version.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from anabranch.broker.schemas.compatibility import (
    Strategy,
    check_consumer,
    check_evolution,
    check_well_formed,
    same_schema,
)
from anabranch.broker.schemas.schema_info import SchemaInfo
from anabranch.broker.schemas.schema_record import (
    StoredSchema,
    encode_deletion,
    encode_stored,
    parse_stored,
    schemas_path,
    version_path,
)
from anabranch.errors import (
    BadVersion,
    IncompatibleSchema,
    InvalidInput,
    NotAllowed,
    NotFound,
    Unavailable,
)
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.runtime.world import Clock
from anabranch.topics.names import TopicName

log = logging.getLogger(__name__)

# A registration reads all versions; both bounds keep that cheap, and neither is met by accident.
MAX_VERSIONS: Final = 1_000
MAX_HISTORY_BYTES: Final = 16 * 1024 * 1024
_ATTEMPTS: Final = 16


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """What the policies of a topic say about its schema."""

    strategy: Strategy = Strategy.FULL
    is_update_allowed: bool = True  # whether a producer or consumer may register a new version
    is_enforced: bool = False  # whether a producer must bring a schema to a topic that has one


class SchemaRegistry:
    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    async def latest(self, topic: TopicName) -> StoredSchema | None:
        """None if the topic has no schema, or if it was deleted."""
        path = schemas_path(topic)
        names = await self._store.children(path)
        if not names:
            return None
        found = await self._store.get(f"{path}/{names[-1]}")
        if found is None:  # the topic was deleted meanwhile
            return None
        stored = parse_stored(found[1].path, found[0])
        return None if stored.is_deleted else stored

    async def get(self, topic: TopicName, version: int) -> StoredSchema | None:
        """That version, also of a deleted schema: stored messages still carry it."""
        if not 0 <= version < MAX_VERSIONS:
            return None
        path = version_path(schemas_path(topic), version)
        found = await self._store.get(path)
        if found is None:
            return None
        stored = parse_stored(path, found[0])
        return None if stored.is_deleted else stored

    async def history(self, topic: TopicName) -> list[StoredSchema]:
        """Every record, oldest first, deletions included."""
        return [
            parse_stored(stat.path, value)
            async for value, stat in self._store.scan(schemas_path(topic))
        ]

    async def find(self, topic: TopicName, schema: SchemaInfo) -> int | None:
        """The version of this very schema, if it is live."""
        check_well_formed(schema)
        return find_version(live_versions(await self.history(topic)), schema)

    async def register(self, topic: TopicName, schema: SchemaInfo, rules: SchemaRules) -> int:
        """Its version: a new one, or the one it has. IncompatibleSchema if it may not follow."""
        if schema.type.is_auto or schema.type.is_absent:
            raise InvalidInput(f"a schema of type {schema.type.value} is never registered")
        check_well_formed(schema)
        for _ in range(_ATTEMPTS):
            history = await self.history(topic)
            live = live_versions(history)
            version = find_version(live, schema)
            if version is not None:
                return version
            check_new_version(topic, history, schema, rules)
            if await self._append(topic, history, encode_stored(schema, self._clock.wall_ms())):
                log.info(
                    "schema registered topic=%s version=%d type=%s",
                    topic.base, next_version(history), schema.type.value,
                )  # fmt: skip
                return next_version(history)
        raise Unavailable(f"{topic.schema_id}: others registered schemas {_ATTEMPTS} times over")

    async def check(self, topic: TopicName, schema: SchemaInfo, strategy: Strategy) -> None:
        """IncompatibleSchema if it may not follow what is there; nothing is written."""
        check_well_formed(schema)
        live = [each.schema for each in live_versions(await self.history(topic))]
        check_evolution(live, schema, strategy)

    async def delete(self, topic: TopicName) -> int:
        """End the life of all versions; answers the number of the record that says so."""
        for _ in range(_ATTEMPTS):
            history = await self.history(topic)
            if not live_versions(history):
                raise NotFound(f"{topic.schema_id} has no schema")
            if await self._append(topic, history, encode_deletion(self._clock.wall_ms())):
                log.info("schema deleted topic=%s", topic.base)
                return next_version(history)
        raise Unavailable(f"{topic.schema_id}: others registered schemas {_ATTEMPTS} times over")

    async def forget(self, topic: TopicName) -> None:
        """Remove every record, together with the topic and all its messages."""
        await self._store.delete_recursive(schemas_path(topic))

    async def admit_producer(
        self, topic: TopicName, schema: SchemaInfo | None, rules: SchemaRules
    ) -> int | None:
        """The version its messages will carry; None without a schema."""
        if schema is None or schema.type.is_absent:
            if rules.is_enforced and await self.latest(topic) is not None:
                raise IncompatibleSchema(
                    f"{topic.schema_id} has a schema and schema validation is enforced: "
                    f"a producer must bring its schema"
                )
            return None
        if schema.type.is_auto:
            stored = await self.latest(topic)
            return None if stored is None else stored.version
        return await self._register_or_refuse(topic, schema, rules)

    async def admit_consumer(
        self,
        topic: TopicName,
        schema: SchemaInfo | None,
        rules: SchemaRules,
        *,
        topic_in_use: bool,
    ) -> None:
        """A consumer's schema becomes the topic's if that is neither in use nor has one.

        `topic_in_use`: it holds messages, or has producers or other consumers with a schema.
        """
        if schema is None or schema.type.is_absent or schema.type.is_auto:
            return
        live = live_versions(await self.history(topic))
        if live or topic_in_use:
            _check_well_formed_for_client(schema)
            check_consumer([each.schema for each in live], schema, rules.strategy)
        else:
            await self._register_or_refuse(topic, schema, rules)

    async def _register_or_refuse(
        self, topic: TopicName, schema: SchemaInfo, rules: SchemaRules
    ) -> int:
        _check_well_formed_for_client(schema)
        return await self.register(topic, schema, rules)

    async def _append(
        self, topic: TopicName, history: Sequence[StoredSchema], record: bytes
    ) -> bool:
        version = next_version(history)
        if version >= MAX_VERSIONS:
            raise NotAllowed(f"{topic.schema_id} has {version} schema versions, no more can be had")
        try:
            await self._store.put(version_path(schemas_path(topic), version), record, NEW)
        except BadVersion:
            return False
        return True


def live_versions(history: Sequence[StoredSchema]) -> list[StoredSchema]:
    """What was registered since the last deletion."""
    first = 1 + max((at for at, each in enumerate(history) if each.is_deleted), default=-1)
    return list(history[first:])


def find_version(live: Sequence[StoredSchema], schema: SchemaInfo) -> int | None:
    return next((each.version for each in live if same_schema(each.schema, schema)), None)


def next_version(history: Sequence[StoredSchema]) -> int:
    return history[-1].version + 1 if history else 0


def check_new_version(
    topic: TopicName, history: Sequence[StoredSchema], schema: SchemaInfo, rules: SchemaRules
) -> None:
    if not rules.is_update_allowed:
        raise IncompatibleSchema(
            f"{topic.schema_id} has no such schema, and its policy does not let clients add any"
        )
    size = sum(len(each.schema.data) for each in history) + len(schema.data)
    if size > MAX_HISTORY_BYTES:
        raise NotAllowed(
            f"the schemas of {topic.schema_id} would have {size} bytes; "
            f"at most {MAX_HISTORY_BYTES} go"
        )
    check_evolution([each.schema for each in live_versions(history)], schema, rules.strategy)


def _check_well_formed_for_client(schema: SchemaInfo) -> None:
    # Clients know one error for all that is wrong with a schema.
    try:
        check_well_formed(schema)
    except InvalidInput as error:
        raise IncompatibleSchema(str(error)) from error
