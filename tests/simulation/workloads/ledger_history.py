"""What was done to ledgers, and what therefore must be found: the oracle of the storage workloads.

Of every ledger it knows the entries submitted, how many of them must be there (acknowledged, or
shown to a reader), and what was asked about its end. Recovered entries are a gapless prefix of
the submitted ones, at least as long as what must be there, byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from crc32c import crc32c

from anabranch.errors import NotFound
from anabranch.storage.ledger import Draft, Entry, LedgerEnd, LedgerReader, LedgerStore

READ = 1 << 30


@dataclass
class LedgerHistory:
    ledger: int
    drafts: list[Draft] = field(default_factory=list)
    sure: int = 0  # entries that must be there for ever
    end: LedgerEnd | None = None  # once a close or a recovery was answered
    delete_asked: bool = False
    deleted: bool = False

    def confirm(self, count: int) -> None:
        self.sure = max(self.sure, count)

    def finish(self, end: LedgerEnd) -> None:
        """A close or recovery was answered: from here on the ledger may not change."""
        if self.end is not None:
            assert end == self.end, f"ledger {self.ledger} ended at {self.end}, now at {end}"
        count = end.last_entry + 1
        assert self.sure <= count <= len(self.drafts), (
            f"ledger {self.ledger} ended with {count} entries; "
            f"{self.sure} must be there, {len(self.drafts)} were submitted"
        )
        length = sum(len(draft.body) for draft in self.drafts[:count])
        assert end.length_bytes == length, f"ledger {self.ledger}: {end}, not {length} bytes"
        self.end = end
        self.sure = count
        del self.drafts[count:]

    def check(self, first: int, entries: list[Entry]) -> None:
        """Whatever a read returned must be what was submitted at that place."""
        for number, entry in enumerate(entries, first):
            assert number < len(self.drafts), f"ledger {self.ledger}: invented entry {number}"
            draft = self.drafts[number]
            expected = (self.ledger, number, draft.body, draft.time_ms, draft.messages)
            found = (entry.ledger, entry.entry, bytes(entry.body), entry.time_ms, entry.messages)
            assert found == expected, f"ledger {self.ledger}: {found}, not {expected}"
        self.confirm(first + len(entries))


@dataclass
class StorageHistory:
    ledgers: dict[int, LedgerHistory] = field(default_factory=dict)
    last_id: int = -1
    creations_without_answer: int = 0
    entries: int = 0

    def created(self, ledger: int) -> LedgerHistory:
        assert ledger > self.last_id, f"id {ledger} after {self.last_id}: given twice"
        self.last_id = ledger
        self.ledgers[ledger] = LedgerHistory(ledger)
        return self.ledgers[ledger]

    def make_draft(self, random: Random) -> Draft:
        self.entries += 1
        body = b"entry %d " % self.entries
        body += random.randbytes(random.choice((0, 3, 40, 40, 200, 1500)))
        prefix = random.randint(0, min(255, len(body)))
        return Draft(
            body,
            crc32c(body[prefix:]),
            prefix,
            time_ms=1000 + self.entries,
            messages=random.randint(1, 9),
        )

    async def check_all(self, store: LedgerStore) -> None:
        """After a start: everything that must be there is, and nothing else."""
        listed = [ledger async for ledger in store.ledgers()]
        assert listed == sorted(set(listed))
        for ledger in listed:
            if ledger not in self.ledgers:
                assert self.creations_without_answer, f"ledger {ledger} was invented"
                self.creations_without_answer -= 1
                self.created(ledger)
        self.creations_without_answer = 0
        for history in self.ledgers.values():
            await self._check_one(store, history, history.ledger in listed)

    async def _check_one(self, store: LedgerStore, history: LedgerHistory, is_listed: bool) -> None:
        if history.deleted:
            assert not is_listed, f"ledger {history.ledger} was deleted, and is back"
            try:
                await store.open(history.ledger)
            except NotFound:
                return
            raise AssertionError(f"ledger {history.ledger} was deleted, and opens")
        if not is_listed:
            assert history.delete_asked, f"ledger {history.ledger} is gone"
            history.deleted = True
            return
        history.delete_asked = False  # the deletion did not happen; nothing may come of it later
        await check_ledger(await store.open(history.ledger), history)


async def check_ledger(reader: LedgerReader, history: LedgerHistory) -> None:
    """Read it from end to end; what was found once must be found for ever."""
    count = reader.last_confirmed + 1
    assert count >= history.sure, f"ledger {history.ledger} lost entries: {count} of {history.sure}"
    entries = await read_all(reader, count)
    assert len(entries) == count
    history.check(0, entries)
    if history.end is not None:
        assert count == history.end.last_entry + 1, f"closed ledger {history.ledger} has changed"
    if count:
        await check_times(reader, history, count)


async def read_all(reader: LedgerReader, count: int) -> list[Entry]:
    entries: list[Entry] = []
    while len(entries) < count:
        more = await reader.read(len(entries), max_entries=7, max_bytes=2000)
        assert more, f"ledger {reader.ledger}: no entry {len(entries)} of {count}"
        entries += more
    return entries


async def check_times(reader: LedgerReader, history: LedgerHistory, count: int) -> None:
    """Times grow with the entries here, so the answer is known."""
    middle = history.drafts[count // 2].time_ms
    assert await reader.find_by_time(middle) == count // 2
    assert await reader.find_by_time(1 << 40) == count
