"""Acknowledgements whose client waits for a receipt: persisted first, then answered.

All that arrive while one write is under way share the next one, and each is answered as soon as
its own cursor is safe. How many may wait is the session's to bound, by not reading on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from anabranch.broker.wire_errors import code_of
from anabranch.errors import AnabranchError
from anabranch.protocol import wire_pb2
from anabranch.protocol.wire_codec import Ack
from anabranch.storage.managed_cursors import ManagedCursor

_U64 = 2**64 - 1


class AckReceipts:
    def __init__(
        self,
        answer: Callable[[wire_pb2.CommandAckResponse], None],
        on_change: Callable[[int], None],
    ) -> None:
        self._answer = answer
        self._on_change = on_change  # told how many wait
        self._waiting: dict[ManagedCursor, list[Ack]] = {}
        self._writing: dict[ManagedCursor, asyncio.Task[None]] = {}
        self._count = 0

    def add(self, cursor: ManagedCursor, ack: Ack) -> None:
        self._waiting.setdefault(cursor, []).append(ack)
        self._change(1)
        if cursor not in self._writing:
            self._writing[cursor] = asyncio.create_task(self._write(cursor))

    def refuse(self, ack: Ack, error: AnabranchError) -> None:
        self._send([ack], error)

    def cancel(self) -> None:
        for task in self._writing.values():
            task.cancel()
        self._waiting.clear()

    async def _write(self, cursor: ManagedCursor) -> None:
        try:
            while acks := self._waiting.pop(cursor, None):
                error: AnabranchError | None = None
                try:
                    await cursor.persist()
                except AnabranchError as failed:
                    error = failed
                self._send(acks, error)
                self._change(-len(acks))
        finally:
            self._writing.pop(cursor, None)

    def _send(self, acks: list[Ack], error: AnabranchError | None) -> None:
        for ack in acks:
            response = wire_pb2.CommandAckResponse(
                consumer_id=ack.consumer_id, request_id=ack.request_id & _U64
            )
            if error is not None:
                response.error, response.message = code_of(error), str(error)
            self._answer(response)

    def _change(self, by: int) -> None:
        self._count += by
        self._on_change(self._count)
