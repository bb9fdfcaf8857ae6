"""Group commit: one journal for all ledgers of a process, one write and one sync for many entries.

Exactly one commit is under way; whatever is submitted meanwhile is the next group. There is no
timer: an idle journal starts at the end of the present turn of the loop, so that everything which
arrived in that turn shares the commit.

A group is a run of records in a journal file, behind a record of kind `group` whose fields say

    ledger    the offset of this record in its file
    entry     the bytes of the group behind this record
    time      where the journal ended in the file of the generation before this one
    messages  the records of the group

The place of a group is fixed when it is begun, because its records carry the generation of their
file. Later groups are written only after the sync of the earlier ones has returned. So an intact
group is proof that all before it was acknowledged, in its own file and in those before: that is
how recovery tells damage from a torn end.

A write or sync that fails ends the journal for good. The kernel may have dropped the pages that it
could not write, so a second sync would succeed without them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from typing import Any, Protocol

from anabranch.errors import Busy, InvalidInput, Unavailable
from anabranch.runtime.world import Buffer, File
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.record_codec import GROUP, HEADER_BYTES, Run, pack_record


class CommitFuture(asyncio.Future[None]):
    """Shared by everybody whose entries are in one group, so none of them can cancel it.

    Each `await` waits on a future of its own, which may be cancelled as usual.
    """

    def cancel(self, msg: Any | None = None) -> bool:
        return False

    def __await__(self) -> Generator[Any, None, None]:
        if not self.done():
            waiter = self.get_loop().create_future()

            def wake(_: object) -> None:
                if not waiter.done():
                    waiter.set_result(None)

            self.add_done_callback(wake)
            try:
                yield from waiter
            finally:
                self.remove_done_callback(wake)
        return self.result()

    __iter__ = __await__


class Group:
    """Entries and other records that are committed together."""

    __slots__ = ("durable", "generation", "offset", "operations", "previous_end", "runs", "size")

    def __init__(self, generation: int, offset: int, previous_end: int) -> None:
        self.generation = generation
        self.offset = offset
        self.previous_end = previous_end
        self.size = HEADER_BYTES
        self.runs: dict[int, Run] = {}
        self.operations: list[tuple[bytes, Callable[[], None]]] = []
        self.durable = CommitFuture()

    def pieces(self) -> list[Buffer]:
        """The bytes of the group: its header, runs of entries, then everything else.

        A ledger's close or delete is never followed by entries of it, and its creation is
        durable before its first entry can be submitted, so this order is the order of events.
        """
        pieces: list[Buffer] = [b""]
        count = len(self.operations)
        for run in self.runs.values():
            count += run.count
            for chunk in run.finish():
                pieces.append(chunk.data)
                if chunk.body is not None:
                    pieces.append(chunk.body)
        pieces += [record for record, _ in self.operations]
        pieces[0] = pack_record(
            GROUP,
            self.generation,
            self.offset,
            self.size - HEADER_BYTES,
            self.previous_end,
            count,
            b"",
        )
        return pieces


class JournalFileSource(Protocol):
    entries_limit: int  # how far entries may fill a file; operations may fill all of it

    @property
    def last_ready(self) -> int:
        """The newest generation that has a file to write to."""
        ...

    async def file_for(self, generation: int) -> File:
        """The prepared file of this generation; waits until there is one."""
        ...


class Journal:
    def __init__(
        self,
        config: EngineConfig,
        files: JournalFileSource,
        *,
        generation: int,
        on_commit: Callable[[Group], None],
        on_room: Callable[[], None],
        on_error: Callable[[str], None],
    ) -> None:
        self._config = config
        self._files = files
        self._on_commit = on_commit
        self._on_error = on_error
        self._on_room = on_room  # pending bytes have become fewer, or it is no use waiting
        self.generation = generation  # of the last group begun
        self.tail = 0  # where the next group of that generation would begin
        self._previous_end = 0
        self._queue: deque[Group] = deque()
        self._open: Group | None = None  # the last of the queue, while it takes more
        self._wake: asyncio.Future[None] | None = None
        self.pending_bytes = 0
        self.groups = 0
        self.bytes_written = 0
        self.refusal: str | None = None  # why nothing more is accepted
        self.failure: str | None = None  # why nothing more is written; implies refusal

    def group_for(self, size: int) -> Group:
        """The group that takes `size` more bytes of entries; they are counted from here on.

        Unavailable at the bound of pending bytes, while no file has a place for them, and once
        the journal has failed. So whatever is accepted waits for nothing but the disk.
        """
        group = self._open
        if (
            group is None
            or group.size + size > self._config.group_bytes
            or self.tail + size > self._files.entries_limit
            or self.pending_bytes + size > self._config.pending_bytes
        ):
            self._refuse_unless_room(size)
            group = self._begin(size, self._files.entries_limit)
        self._count(group, size)
        return group

    def has_room(self, size: int) -> bool:
        """Whether `size` more bytes of entries would be accepted."""
        return self._may_wait(size) and self._has_place(size, self._files.entries_limit)

    def has_place_for_operation(self, size: int) -> bool:
        """Whether a file has a place for it: operations may use the space that is kept for them."""
        return self._has_place(size, self._config.journal_file_bytes)

    def _may_wait(self, size: int) -> bool:
        pending = self.pending_bytes  # a single submission may be larger than the bound
        return pending == 0 or pending + size <= self._config.pending_bytes

    def _has_place(self, size: int, limit: int) -> bool:
        ready = self._files.last_ready
        if self.generation < ready:
            return True
        return self.generation == ready and self.tail + HEADER_BYTES + size <= limit

    def _refuse_unless_room(self, size: int) -> None:
        if self.refusal is None and not self._may_wait(size):
            raise Busy(
                f"{self.pending_bytes} bytes wait for the disk, the bound is "
                f"{self._config.pending_bytes}: wait for room"
            )
        self._refuse_unless_place(size, self._files.entries_limit)

    def _refuse_unless_place(self, size: int, limit: int) -> None:
        if self.refusal is not None:
            raise Unavailable(self.refusal)
        if HEADER_BYTES + size > self._config.journal_file_bytes:
            raise InvalidInput(
                f"{size} bytes do not fit a journal file of {self._config.journal_file_bytes}"
            )
        if not self._has_place(size, limit):
            raise Busy("no journal file is ready: wait for room")

    def _begin(self, size: int, limit: int) -> Group:
        if self.tail + HEADER_BYTES + size > limit:
            self._previous_end = self.tail
            self.generation += 1
            self.tail = 0
        group = self._open = Group(self.generation, self.tail, self._previous_end)
        self.tail += HEADER_BYTES
        self.pending_bytes += HEADER_BYTES
        self._queue.append(group)
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        return group

    def _count(self, group: Group, size: int) -> None:
        group.size += size
        self.tail += size
        self.pending_bytes += size

    def submit_operation(
        self,
        kind: int,
        ledger: int,
        entry: int,
        time_ms: int,
        body: bytes,
        apply: Callable[[], None],
    ) -> CommitFuture:
        """Queue a record that is no entry; `apply` runs when it is durable, in order."""
        size = HEADER_BYTES + len(body)
        whole = self._config.journal_file_bytes
        group = self._open
        if group is None or self.tail + size > whole:
            self._refuse_unless_place(size, whole)
            group = self._begin(size, whole)
        self._count(group, size)
        record = pack_record(kind, group.generation, ledger, entry, time_ms, 0, body)
        group.operations.append((record, apply))
        return group.durable

    async def run_commits(self) -> None:
        """Never returns; the owner cancels it."""
        while True:
            while not self._queue:
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake
            group = self._queue[0]
            await self._commit(group)

    async def drain(self) -> None:
        """Until everything submitted so far is durable; Unavailable if the journal failed."""
        if self._queue:
            await self._queue[-1].durable

    async def _commit(self, group: Group) -> None:
        file = await self._files.file_for(group.generation)
        if self._open is group:
            self._open = None
        try:
            await file.write(group.offset, group.pieces(), sync=True)
        except OSError as error:
            self._on_error(
                f"writing journal generation {group.generation} at {group.offset} failed: {error}"
            )
            return
        if self.failure is not None:
            return  # somebody else's disk error came first; these entries were answered already
        self._on_commit(group)
        self._queue.popleft()
        self.groups += 1
        self.bytes_written += group.size
        self.pending_bytes -= group.size
        group.durable.set_result(None)
        self._on_room()

    def refuse(self, reason: str) -> None:
        """Accept nothing more; what was accepted is still committed."""
        if self.refusal is None:
            self.refusal = reason
        self._open = None
        self._on_room()

    def stop(self, reason: str) -> None:
        """Write nothing more. What was not acknowledged has an unknown outcome."""
        if self.failure is not None:
            return
        self.failure = self.refusal = reason
        groups, self._queue, self._open = self._queue, deque(), None
        for group in groups:
            group.durable.set_exception(Unavailable(f"outcome unknown: {reason}"))
            group.durable.exception()  # it may be that nobody waits; that is no error
        self.pending_bytes = 0
        self._on_room()
