"""The limits of the local ledger engine, and the names of its files."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import InvalidInput
from anabranch.storage.record_codec import HEADER_BYTES

_KIB = 1024
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class EngineConfig:
    directory: str = "storage"  # below the world's disk
    journal_file_bytes: int = 128 * _MIB
    journal_files: int = 4  # the one in use, the one prepared, and those waiting for a checkpoint
    group_bytes: int = 8 * _MIB  # a commit is not made larger than this by a further submission
    pending_bytes: int = 64 * _MIB  # submitted, not yet durable
    owed_bytes: int = 64 * _MIB  # durable in the journal, not yet in the ledgers' files
    cache_bytes: int = 32 * _MIB
    reserve_bytes: int = 256 * _MIB  # writes are refused while less than this is free
    open_files: int = 256
    indexes: int = 1024  # of closed ledgers, kept in memory
    retry_seconds: float = 0.25  # after the disk was found full; doubles up to 16 times this

    def __post_init__(self) -> None:
        smallest = {
            "journal_file_bytes": 4 * _KIB,
            "journal_files": 2,
            "group_bytes": 1,
            "pending_bytes": 1,
            "owed_bytes": 1,
            "cache_bytes": 0,
            "reserve_bytes": 0,
            "open_files": 1,
            "indexes": 1,
        }
        wrong = [
            f"{name} is {getattr(self, name)}, at least {least} is needed"
            for name, least in smallest.items()
            if getattr(self, name) < least
        ]
        if self.retry_seconds <= 0:
            wrong.append(f"retry_seconds is {self.retry_seconds}, more than 0 is needed")
        if not self.directory:
            wrong.append("directory is empty")
        if wrong:
            raise InvalidInput("; ".join(wrong))

    @property
    def largest_entry_bytes(self) -> int:
        """An entry must fit one journal file, together with the header of its group."""
        return self.journal_file_bytes - 2 * HEADER_BYTES

    @property
    def journal_directory(self) -> str:
        return f"{self.directory}/journal"

    @property
    def ledger_directory(self) -> str:
        return f"{self.directory}/ledgers"

    @property
    def manifest_path(self) -> str:
        return f"{self.directory}/manifest"

    @property
    def lock_path(self) -> str:
        return f"{self.directory}/lock"

    def journal_path(self, generation: int) -> str:
        return f"{self.journal_directory}/{generation:016x}"

    def ledger_path(self, ledger: int) -> str:
        return f"{self.ledger_directory}/{ledger:016x}"

    def index_path(self, ledger: int) -> str:
        return f"{self.ledger_directory}/{ledger:016x}.index"
