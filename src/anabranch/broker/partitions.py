"""Partitioned topics: how many partitions a name stands for.

    /admin/partitioned-topics/{tenant}/{namespace}/{domain}/{encoded local name}
        {"partitions": 4, "properties": {}, "deleted": false}

The record alone makes a topic partitioned; its partitions are regular topics that are created when
somebody needs them. Partitions are only ever added, since keys find theirs by the number of them.
A deletion marks the record first, so that no partition is created anew while they go.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from anabranch.broker.record_update import (
    change_record,
    create_record,
    delete_record,
    load_record,
)
from anabranch.errors import InvalidInput, InvalidName, NotAllowed, NotFound
from anabranch.metadata.store import MetadataStore
from anabranch.topics.json_fields import Fields, Json
from anabranch.topics.names import Domain, NamespaceName, TopicName, decode_local_name

PARTITIONED_TOPICS_PATH: Final = "/admin/partitioned-topics"
# With no limit configured; a topic of more is a mistake in a script.
MAX_PARTITIONS: Final = 100_000
_DOMAINS: Final = (Domain.PERSISTENT, Domain.NON_PERSISTENT)


@dataclass(frozen=True, slots=True)
class PartitionedTopic:
    partitions: int
    properties: Mapping[str, str] = field(default_factory=dict)
    is_deleted: bool = False  # marked: it and its partitions are on their way out

    def to_json(self) -> dict[str, Json]:
        return {
            "partitions": self.partitions,
            "properties": dict(self.properties),
            "deleted": self.is_deleted,
        }


class PartitionedTopics:
    def __init__(self, store: MetadataStore, *, max_partitions: int = 0) -> None:
        self._store = store
        self.limit(max_partitions)

    def limit(self, max_partitions: int) -> None:
        """It may change while the broker runs."""
        self._max_partitions = max_partitions if max_partitions > 0 else MAX_PARTITIONS

    async def get(self, topic: TopicName) -> PartitionedTopic | None:
        """None for a topic without partitions, for a partition, and for what does not exist."""
        if topic.domain not in _DOMAINS or topic.partition is not None:
            return None
        return await load_record(self._store, partitioned_topic_path(topic), _parse_stored)

    async def create(
        self, topic: TopicName, partitions: int, properties: Mapping[str, str] | None = None
    ) -> PartitionedTopic:
        self._check_count(topic, partitions)
        record = PartitionedTopic(partitions, dict(properties or {}))
        path = partitioned_topic_path(topic)
        await create_record(self._store, path, record.to_json(), f"partitioned topic {topic}")
        return record

    async def grow(self, topic: TopicName, partitions: int) -> PartitionedTopic:
        """InvalidInput for fewer than there are; as many as there are is fine."""
        self._check_count(topic, partitions)

        def grown(record: PartitionedTopic) -> PartitionedTopic:
            if partitions < record.partitions:
                raise InvalidInput(
                    f"{topic} has {record.partitions} partitions and cannot have {partitions}: "
                    f"partitions can only be added"
                )
            return replace(record, partitions=partitions)

        return await self._change(topic, grown)

    async def update_properties(
        self, topic: TopicName, change: Callable[[Mapping[str, str]], Mapping[str, str]]
    ) -> PartitionedTopic:
        return await self._change(
            topic, lambda record: replace(record, properties=dict(change(record.properties)))
        )

    async def mark_deleted(self, topic: TopicName) -> PartitionedTopic:
        """First step of a deletion; the partitions go next, then `delete`. Can be repeated."""
        return await self._change_any(topic, lambda record: replace(record, is_deleted=True))

    async def delete(self, topic: TopicName) -> None:
        await delete_record(
            self._store, partitioned_topic_path(topic), f"partitioned topic {topic}"
        )

    async def of_namespace(
        self, name: NamespaceName, domain: Domain = Domain.PERSISTENT
    ) -> list[TopicName]:
        """Those on their way out too: their partitions may still be there."""
        path = f"{partitioned_topics_path(name)}/{domain.value}"
        found = await self._store.children(path)
        return [TopicName(domain, name, decode_local_name(each)) for each in found]

    async def _change(
        self, topic: TopicName, change: Callable[[PartitionedTopic], PartitionedTopic]
    ) -> PartitionedTopic:
        def changed(record: PartitionedTopic) -> PartitionedTopic:
            if record.is_deleted:
                raise NotFound(f"partitioned topic {topic} is being deleted")
            return change(record)

        return await self._change_any(topic, changed)

    async def _change_any(
        self, topic: TopicName, change: Callable[[PartitionedTopic], PartitionedTopic]
    ) -> PartitionedTopic:
        return await change_record(
            self._store, partitioned_topic_path(topic), _parse_stored, change,
            PartitionedTopic.to_json, f"partitioned topic {topic}",
        )  # fmt: skip

    def _check_count(self, topic: TopicName, partitions: int) -> None:
        if not 1 <= partitions <= self._max_partitions:
            raise InvalidInput(
                f"{topic} cannot have {partitions} partitions, only 1 to {self._max_partitions}"
            )


def partitioned_topic_path(topic: TopicName) -> str:
    if topic.domain not in _DOMAINS:
        raise NotAllowed(f"{topic} is a {topic.domain.value} name: those have no partitions")
    if topic.partition is not None:
        raise InvalidName(f"{topic} is a partition itself, of {topic.base}")
    space = partitioned_topics_path(topic.namespace)
    return f"{space}/{topic.domain.value}/{topic.encoded_local}"


def partitioned_topics_path(name: NamespaceName) -> str:
    return f"{PARTITIONED_TOPICS_PATH}/{name.tenant}/{name.namespace}"


def _parse_stored(raw: Json, path: str) -> PartitionedTopic:
    source = Fields(raw, path)
    return PartitionedTopic(
        source.integer("partitions"),
        source.texts("properties"),
        source.optional_flag("deleted") or False,
    )
