"""The producers of one topic: let in, made to wait, sent away.

`producers.ProducerRoster` decides; this asks connections whether they live, saves epochs before
anybody hears of them, and tells those who are closed. A producer that is sent away is answered for
what it sent before, unless storage failed: then it must send all of it again, in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from anabranch.broker.policies import EffectivePolicies
from anabranch.broker.producers import (
    Accepted,
    Contested,
    Producer,
    ProducerRoster,
    Refusal,
    Refused,
    Removed,
    Waiting,
)
from anabranch.broker.publishing import ProducerHandle
from anabranch.errors import AnabranchError, NotReady, ProducerBusy, ProducerFenced

if TYPE_CHECKING:
    from anabranch.broker.topic import Topic

log = logging.getLogger(__name__)

# A property of the ledger: the epoch of the last producer that had the topic for itself.
EPOCH_PROPERTY = "anabranch.topic-epoch"


class Admission:
    def __init__(self, topic: Topic, max_producers: int) -> None:
        self._topic = topic
        epoch = topic.ledger.record.properties.get(EPOCH_PROPERTY)
        self.roster = ProducerRoster(
            str(topic.name),
            topic_epoch=None if epoch is None else int(epoch),
            max_producers=max_producers,
        )
        self.handles: dict[tuple[int, int], ProducerHandle] = {}
        self._promotions: dict[tuple[int, int], asyncio.Future[Producer]] = {}
        self._turn = asyncio.Lock()

    def is_waiting(self, handle: ProducerHandle) -> bool:
        return handle.producer.key in self._promotions

    def apply_policies(self, policies: EffectivePolicies) -> None:
        self.roster.max_producers = policies.max_producers_per_topic
        if policies.is_encryption_required:
            for handle in list(self.handles.values()):
                if not handle.is_encrypted:
                    self.close(handle, "only encrypted messages are taken from now on")

    async def add(self, handle: ProducerHandle) -> asyncio.Future[Producer] | None:
        """Let it in; a future if it has to wait until it has the topic for itself."""
        decision = await self._decide(handle)
        if isinstance(decision, Contested):
            # Not within the turn: others must not wait for a connection that may be dead.
            await self._contest(handle, decision.holder)
            decision = await self._decide(handle)
        match decision:
            case Accepted():
                return None
            case Waiting():
                return self._promotions[handle.producer.key]
            case Refused():
                raise _refusal(decision)
            case Contested():
                raise ProducerBusy(f"producer {handle.name!r} of {self._topic.name} is contested")

    async def _decide(self, handle: ProducerHandle) -> Accepted | Waiting | Contested | Refused:
        async with self._turn:
            self._topic.require_serving()
            decision = self.roster.admit(handle.producer)
            if isinstance(decision, Accepted):
                await self._enter(handle, decision)
            elif isinstance(decision, Waiting):
                self._take_place(handle)
                future: asyncio.Future[Producer] = asyncio.get_running_loop().create_future()
                self._promotions[handle.producer.key] = future
            return decision

    async def _contest(self, handle: ProducerHandle, named: Producer) -> None:
        holder = self.handles.get(named.key)
        if holder is None:
            return
        if await holder.session.is_alive():
            raise ProducerBusy(
                f"producer {handle.name!r} is already connected to {self._topic.name}; "
                "pick another name"
            )
        holder.session.cut("its producer's name was taken over")
        self.remove(holder)

    async def _enter(self, handle: ProducerHandle, accepted: Accepted) -> None:
        handle.producer = accepted.producer
        self._take_place(handle)
        # At once: what they send from here on is not to be found among what the new one sends.
        for closed in accepted.closed:
            self._evict(closed, "another producer has the topic for itself now")
        for fenced in accepted.fenced:
            self.handles.pop(fenced.key, None)
            self._fail(fenced, ProducerFenced(f"{self._topic.name} was taken by another producer"))
        if accepted.is_epoch_new:
            await self.save_epoch(accepted.producer)
        if self._topic.deduplication is not None:
            self._topic.deduplication.connected(handle.name)

    def _take_place(self, handle: ProducerHandle) -> None:
        former = self.handles.get(handle.producer.key)
        if former is not None and former is not handle:
            former.close()  # an earlier attempt of the same client; it sends all of it again
        self.handles[handle.producer.key] = handle

    async def save_epoch(self, holder: Producer) -> None:
        """Before anybody hears that it has the topic for itself."""
        epoch = holder.topic_epoch or 0

        def raised(properties: Mapping[str, str]) -> dict[str, str]:
            # Two holders may be saved at once, and the earlier one last.
            known = int(properties.get(EPOCH_PROPERTY, 0))
            return {**properties, EPOCH_PROPERTY: str(max(epoch, known))}

        await self._topic.ledger.update_properties(raised)

    # Leaving

    def close(self, handle: ProducerHandle, reason: str, *, is_failed: bool = False) -> None:
        """By us: its client is told, and will come back."""
        self._say_closed(handle, reason, is_failed=is_failed)
        self._forget(handle)

    def close_all(self, reason: str) -> None:
        for producer in self.roster.clear():
            self._evict(producer, reason)

    def remove(self, handle: ProducerHandle) -> None:
        """It left, or its connection is gone."""
        handle.close()
        self._forget(handle)

    def _evict(self, producer: Producer, reason: str) -> None:
        handle = self.handles.pop(producer.key, None)
        if handle is not None:
            self._fail(producer, NotReady(f"{self._topic.name}: {reason}"))
            self._say_closed(handle, reason)

    def _say_closed(self, handle: ProducerHandle, reason: str, *, is_failed: bool = False) -> None:
        log.info(
            "producer closed topic=%s name=%s reason=%s", self._topic.name, handle.name, reason
        )
        if is_failed:
            handle.close()
            handle.session.close_producer(handle)
        else:
            handle.finish()

    def _forget(self, handle: ProducerHandle) -> None:
        key = handle.producer.key
        if self.handles.get(key) is handle:
            del self.handles[key]
            waiting = self._promotions.pop(key, None)
            if waiting is not None:
                waiting.cancel()
            self._promote(self.roster.remove(*key))
        if self._topic.deduplication is not None:
            self._topic.deduplication.disconnected(handle.name, self._topic.clock.wall_ms())

    def _promote(self, removed: Removed) -> None:
        for producer, refusal in removed.refused:
            self.handles.pop(producer.key, None)
            self._fail(producer, ProducerFenced(refusal.message))
        if removed.promoted is None:
            return
        promoted = removed.promoted.producer
        handle = self.handles.get(promoted.key)
        future = self._promotions.pop(promoted.key, None)
        if handle is not None and future is not None and not future.done():
            handle.producer = promoted
            future.set_result(promoted)

    def _fail(self, producer: Producer, error: AnabranchError) -> None:
        future = self._promotions.pop(producer.key, None)
        if future is not None and not future.done():
            future.set_exception(error)


def _refusal(refused: Refused) -> ProducerBusy | ProducerFenced:
    if refused.kind is Refusal.FENCED:
        return ProducerFenced(refused.message)
    return ProducerBusy(refused.message)
