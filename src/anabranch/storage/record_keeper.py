"""One owner's hold on a managed ledger: its record, and the moment it learns the hold is gone.

`Tenure` is how long an instance may act. It ends once and for all: by a lost compare-and-set, by
an append that found the ledger fenced, or because the instance was unloaded. Everything asks it
first, so nothing can act half-fenced.

`RecordKeeper` changes the record by compare-and-set, one change at a time. A save whose outcome
is unknown is settled by reading before anything else is decided: if the record there carries our
epoch it is ours, whether it is the one before or the one after; any other means that a new owner
has loaded the ledger.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from anabranch.errors import AnabranchError, BadVersion, Fenced, Unavailable
from anabranch.storage.managed_record import ManagedLedgerRecords, ManagedRecord


class Tenure:
    def __init__(self) -> None:
        self.error: AnabranchError | None = None
        self._listeners: list[Callable[[AnabranchError], None]] = []

    def check(self) -> None:
        if self.error is not None:
            # A fresh one each time: raising one object again would pile up tracebacks on it.
            raise type(self.error)(*self.error.args)

    def end(self, error: AnabranchError) -> None:
        """The first reason stays the reason."""
        if self.error is None:
            self.error = error
            for listener in self._listeners:
                listener(error)

    def on_end(self, listener: Callable[[AnabranchError], None]) -> None:
        self._listeners.append(listener)


class RecordKeeper:
    def __init__(
        self,
        name: str,
        records: ManagedLedgerRecords,
        record: ManagedRecord,
        version: int,
        tenure: Tenure,
    ) -> None:
        self.name = name
        self.record = record  # the last one known to be stored
        self._version = version
        self._records = records
        self._tenure = tenure
        self._turn = asyncio.Lock()
        self._is_unsure = False  # a save may or may not have been applied

    async def update(self, change: Callable[[ManagedRecord], ManagedRecord]) -> ManagedRecord:
        """Store `change` of the current record. Fenced, for good, if another owner changed it.

        A change that has begun is finished even if the caller is cancelled: a save under way that
        nobody waits for would look like another owner's to the next one.
        """
        work = asyncio.create_task(self._update(change), name=f"update {self.name}")
        work.add_done_callback(_retrieve)
        return await asyncio.shield(work)

    async def _update(self, change: Callable[[ManagedRecord], ManagedRecord]) -> ManagedRecord:
        async with self._turn:
            await self._settle()
            changed = change(self.record)
            if changed == self.record:
                return self.record
            try:
                self._version = await self._records.save(self.name, changed, self._version)
            except BadVersion as error:
                raise self._lost(str(error)) from error
            except Unavailable:
                self._is_unsure = True
                raise
            self.record = changed
            return changed

    async def refresh(self) -> ManagedRecord:
        """The record as stored, with no doubt left about an earlier save."""
        async with self._turn:
            await self._settle()
            return self.record

    async def delete(self) -> None:
        async with self._turn:
            await self._settle()
            try:
                await self._records.delete(self.name, self._version)
            except BadVersion as error:
                raise self._lost(str(error)) from error

    async def _settle(self) -> None:
        self._tenure.check()
        if not self._is_unsure:
            return
        found = await self._records.load(self.name)
        if found is None or found[0].epoch != self.record.epoch:
            epoch = "gone" if found is None else f"at epoch {found[0].epoch}"
            raise self._lost(f"record is {epoch}, ours was {self.record.epoch}")
        self.record, self._version = found
        self._is_unsure = False

    def _lost(self, reason: str) -> Fenced:
        error = Fenced(f"managed ledger {self.name} has another owner: {reason}")
        self._tenure.end(error)
        return error


def _retrieve(work: asyncio.Task[ManagedRecord]) -> None:
    """Whoever asked may be gone; then its error is nobody's."""
    if not work.cancelled():
        work.exception()
