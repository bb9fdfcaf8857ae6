"""One producer's sends, from its connection to the ledger, and the answers back, in order.

The sends of one read event form a *run*: one submission, one future. Answers leave in the order of
the sends, whatever their outcome, because clients count on it; so runs wait in a queue, and the
queue is answered from its head.

A send that storage failed has an unknown outcome, and those behind it must not overtake its second
try. The producer is therefore closed: the client comes back and sends everything unanswered again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from anabranch.broker.deduplication import Verdict
from anabranch.broker.entry_traits import deliver_at_ms, is_encrypted
from anabranch.broker.producers import Producer
from anabranch.broker.wire_errors import Code, code_of
from anabranch.errors import AnabranchError, Closed, RemoteProtocolError, Sealed
from anabranch.protocol import wire_pb2
from anabranch.protocol.entries import parse_metadata
from anabranch.protocol.wire_codec import Send
from anabranch.storage.ledger import Draft
from anabranch.topics.positions import Position

if TYPE_CHECKING:
    from anabranch.broker.session import Session
    from anabranch.broker.topic import Topic

log = logging.getLogger(__name__)

# What the wire says of a message that was stored before, under a position nobody remembers.
DUPLICATE = Position(-1, -1)
# More in one entry is no batch but an attack on the arithmetic of permits.
MAX_BATCH = 1_000_000


class Run:
    """Sends that are answered together. `position` is the first one's, once they are durable."""

    __slots__ = ("error", "is_settled", "message", "position", "sends", "size_bytes")

    def __init__(self, sends: list[Send], size_bytes: int) -> None:
        self.sends = sends
        self.size_bytes = size_bytes
        self.position = DUPLICATE
        self.error: wire_pb2.ServerError | None = None
        self.message = ""
        self.is_settled = False

    @classmethod
    def refused(cls, send: Send, error: wire_pb2.ServerError, message: str) -> Run:
        run = cls([send], 0)
        run.error, run.message, run.is_settled = error, message, True
        return run

    @classmethod
    def duplicate(cls, send: Send) -> Run:
        run = cls([send], 0)
        run.is_settled = True
        return run


class ProducerHandle:
    """A producer of this broker: where its sends come from, and where they go."""

    def __init__(
        self,
        session: Session,
        topic: Topic,
        producer: Producer,
        metadata: Mapping[str, str],
        *,
        is_encrypted: bool = False,
    ) -> None:
        self.session = session
        self.topic = topic
        self.producer = producer
        self.metadata = dict(metadata)
        self.is_encrypted = is_encrypted  # or so it said
        self.connected_at_ms = topic.clock.wall_ms()
        self.meter = topic.new_meter()
        self.is_closed = False
        self.is_finishing = False  # what was sent is answered, nothing more is taken
        self._runs: deque[Run] = deque()
        self._drained: asyncio.Future[None] | None = None

    @property
    def id(self) -> int:
        return self.producer.id

    @property
    def name(self) -> str:
        return self.producer.name

    def publish(self, sends: list[Send]) -> None:
        if self.is_finishing:
            return  # the client will hear that it is closed, and send them to its successor
        if not self._is_looking and self._are_plain(sends):
            self._submit(sends)
        else:
            self._publish_one_by_one(sends)

    @property
    def _is_looking(self) -> bool:
        """Whether every send has to be looked at by itself."""
        topic = self.topic
        policies = topic.policies
        return (
            topic.deduplication is not None
            or policies.is_encryption_required
            or policies.delayed_delivery.max_delay_ms > 0
        )

    def _are_plain(self, sends: list[Send]) -> bool:
        largest = self.topic.policies.max_message_bytes
        for send in sends:
            if not send.is_intact or send.has_txn or len(send.body) > largest:
                return False
        return True

    def _publish_one_by_one(self, sends: list[Send]) -> None:
        fresh: list[Send] = []
        for send in sends:
            refusal = self._check(send)
            if refusal is None:
                fresh.append(send)
                continue
            if fresh:
                self._submit(fresh)
                fresh = []
            if self.is_closed:
                return  # what follows a failed send must not overtake its second try
            self._runs.append(refusal)
        if fresh:
            self._submit(fresh)
        self._answer()

    def _check(self, send: Send) -> Run | None:
        """The answer to a send that is not to be stored."""
        if not send.is_intact:
            return Run.refused(send, Code.ChecksumError, "the checksum does not match the entry")
        if send.has_txn:
            return Run.refused(send, Code.NotAllowedError, "transactions are not enabled here")
        largest = self.topic.policies.max_message_bytes
        size = len(send.body) - send.payload_start
        if size > largest:
            return Run.refused(
                send, Code.NotAllowedError, f"message of {size} bytes, the limit is {largest}"
            )
        return self._check_policies(send) or self._check_duplicate(send)

    def _check_policies(self, send: Send) -> Run | None:
        policies = self.topic.policies
        if policies.is_encryption_required and not is_encrypted(send.body):
            return Run.refused(
                send, Code.MetadataError, f"{self.topic.name} takes encrypted messages only"
            )
        longest_ms = policies.delayed_delivery.max_delay_ms
        if longest_ms <= 0:
            return None
        delay_ms = deliver_at_ms(send.body) - self.topic.clock.wall_ms()
        if delay_ms > longest_ms:
            return Run.refused(
                send, Code.NotAllowedError, f"delay of {delay_ms} ms, the limit is {longest_ms}"
            )
        return None

    def _check_duplicate(self, send: Send) -> Run | None:
        known = self.topic.deduplication
        if known is None:
            return None
        verdict = known.decide(
            self.name, send.sequence_id, send.highest_sequence_id, is_last=is_last_chunk(send)
        )
        match verdict:
            case Verdict.NEW:
                return None
            case Verdict.DUPLICATE:
                return Run.duplicate(send)
            case Verdict.UNDECIDED:
                return Run.refused(
                    send, Code.PersistenceError, "an earlier send of this id is on its way to disk"
                )
            case Verdict.OVERLAP:
                return Run.refused(
                    send,
                    Code.NotAllowedError,
                    f"sequence ids {send.sequence_id} to {send.highest_sequence_id} are partly "
                    "stored already",
                )

    def _submit(self, sends: list[Send]) -> None:
        drafts = [
            Draft(
                send.body,
                send.checksum,
                send.prefix,
                send.publish_time_ms,
                send.batch_size if 0 < send.batch_size < MAX_BATCH else 1,
            )
            for send in sends
        ]
        run = Run(sends, sum([len(draft.body) for draft in drafts]))
        self._runs.append(run)
        try:
            future = self.topic.submit(drafts, run.size_bytes, self)
        except AnabranchError as error:
            self._refuse_storing(run, error)
            return
        self.session.budget.take(run.size_bytes)
        future.add_done_callback(partial(self._settle, run))

    def _settle(self, run: Run, future: asyncio.Future[Position]) -> None:
        self.session.budget.release(run.size_bytes)
        error = future.exception()
        if error is not None:
            self._fail_storing(run, error)
            return
        run.position = future.result()
        run.is_settled = True
        known = self.topic.deduplication
        if known is not None:
            for send in run.sends:
                known.persisted(
                    self.name,
                    send.sequence_id,
                    send.highest_sequence_id,
                    is_last=is_last_chunk(send),
                )
            first = run.position
            known.settled(Position(first.ledger, first.entry + len(run.sends) - 1), len(run.sends))
        self._answer()

    def _refuse_storing(self, run: Run, error: AnabranchError) -> None:
        """Storage did not begin with it, so it may come again."""
        known = self.topic.deduplication
        if known is not None:
            for _ in run.sends:
                known.failed(self.name)
        self._settle_error(run, error)

    def _fail_storing(self, run: Run, error: BaseException) -> None:
        """It may be on disk or not, and only the disk can tell."""
        self._settle_error(run, error)
        if self.topic.deduplication is not None and not self.topic.is_sealed:
            self.topic.on_doubt()

    def _settle_error(self, run: Run, error: BaseException) -> None:
        run.is_settled = True
        if isinstance(error, Closed) and self.topic.is_sealed:
            error = Sealed(str(error))
        run.error, run.message = code_of(error), str(error)
        if not isinstance(error, Sealed) and not self.is_closed:
            log.warning(
                "send failed topic=%s producer=%s error=%r", self.topic.name, self.name, error
            )
            self.topic.close_producer(self, "storage failed", is_failed=True)
            return
        self._answer()

    def _answer(self) -> None:
        """Everything from the head of the queue that is settled."""
        if self.is_closed:
            return
        runs, connection = self._runs, self.session.connection
        while runs and runs[0].is_settled:
            run = runs.popleft()
            if run.error is not None:
                self._send_errors(run)
                continue
            if run.position is DUPLICATE:
                for send in run.sends:
                    connection.send_receipt(
                        self.id, send.sequence_id, send.highest_sequence_id, *DUPLICATE
                    )
            else:
                connection.send_receipts(run.sends, *run.position)
        self.session.flush_soon()
        if not runs:
            self._all_answered()

    def _all_answered(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)
        if self.is_finishing:
            self.close()
            self.session.close_producer(self)

    def _send_errors(self, run: Run) -> None:
        assert run.error is not None
        for send in run.sends:
            self.session.connection.send(
                wire_pb2.CommandSendError(
                    producer_id=self.id,
                    sequence_id=send.sequence_id,
                    error=run.error,
                    message=run.message,
                )
            )

    async def drain(self) -> None:
        """Until everything sent so far is answered."""
        if self._runs and not self.is_closed:
            self._drained = asyncio.get_running_loop().create_future()
            await self._drained

    def finish(self) -> None:
        """Take nothing more; when everything is answered, tell the client that this is closed."""
        self.is_finishing = True
        if not self._runs:
            self._all_answered()

    def close(self) -> None:
        """Answer nothing from here on."""
        self.is_closed = True
        self._runs.clear()
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)


def is_last_chunk(send: Send) -> bool:
    """Whether a send completes its message; most are no chunks at all."""
    if not send.is_chunk:
        return True
    try:
        metadata = parse_metadata(memoryview(send.body)[send.metadata_start : send.payload_start])
    except RemoteProtocolError:
        return True
    return metadata.chunk_id == metadata.num_chunks_from_msg - 1
