"""The policies that are set for single topics.

    /admin/topic-policies/{tenant}/{namespace}/{domain}/{encoded local name}    see policies.py

Partitions share the policies of their topic, segments those of their scalable topic. A record
in which nothing is set any more is removed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from anabranch.broker.policies import (
    NOTHING_SET,
    Policies,
    contradictions,
    parse_stored_policies,
)
from anabranch.broker.record_update import ATTEMPTS, load_record
from anabranch.errors import BadVersion, InvalidInput, NotFound, Unavailable
from anabranch.metadata.store import NEW, MetadataStore
from anabranch.topics.json_fields import encode_json, parse_json
from anabranch.topics.names import Domain, NamespaceName, TopicName

TOPIC_POLICIES_PATH: Final = "/admin/topic-policies"


class TopicPolicies:
    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def get(self, topic: TopicName) -> Policies:
        found = await load_record(self._store, policies_path(topic), parse_stored_policies)
        return NOTHING_SET if found is None else found

    async def update(self, topic: TopicName, change: Callable[[Policies], Policies]) -> Policies:
        """`change` may be called again. InvalidInput if the result does not go together."""
        path = policies_path(topic)
        for _ in range(ATTEMPTS):
            found = await self._store.get(path)
            old = (
                NOTHING_SET
                if found is None
                else parse_stored_policies(parse_json(found[0], path), path)
            )
            new = change(old)
            problems = contradictions(new)
            if problems:
                raise InvalidInput(f"topic {topic.base}: {'; '.join(problems)}")
            version = NEW if found is None else found[1].version
            if new == old or await self._replace(path, new, version):
                return new
        raise Unavailable(f"the policies of {topic.base} were changed by others, try again")

    async def delete(self, topic: TopicName) -> None:
        """With the topic; it is fine if nothing was set."""
        await self._store.delete_recursive(policies_path(topic))

    async def _replace(self, path: str, policies: Policies, version: int) -> bool:
        try:
            if policies == NOTHING_SET:
                await self._store.delete(path, version)
            else:
                await self._store.put(path, encode_json(policies.to_json()), version)
        except (BadVersion, NotFound):
            return False
        return True


def policies_path(topic: TopicName) -> str:
    owner = topic.scalable if topic.domain is Domain.SEGMENT else topic.base
    return f"{topic_policies_path(owner.namespace)}/{owner.domain.value}/{owner.encoded_local}"


def topic_policies_path(name: NamespaceName) -> str:
    return f"{TOPIC_POLICIES_PATH}/{name.tenant}/{name.namespace}"
