"""The main job, for now: a log that keeps what it acknowledged, however its process dies.

    python examples/durable_log.py [--rounds 5] [--directory DIR]

A writer process appends orders of a few customers to one topic's managed ledger and reports every
position it was given, and every acknowledgement its cursor confirmed. We kill it with SIGKILL in
full flight, start it again on the same directory, and so on. In the end we open the directory
ourselves and compare: everything acknowledged must be there, byte for byte, in order for every
customer, and no confirmed acknowledgement may be forgotten.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from crc32c import crc32c

from anabranch.broker.ledger_records import StoredLedgerRecords
from anabranch.metadata.urls import open_store
from anabranch.runtime.build_mode import loaded_mode
from anabranch.runtime.system import system_world
from anabranch.storage.engine_config import EngineConfig
from anabranch.storage.file_ledger import FileLedgerStore
from anabranch.storage.ledger import Draft
from anabranch.storage.managed_ledger import ManagedLedger, Surroundings, load_managed_ledger
from anabranch.topics.positions import EARLIEST, Position

TOPIC = "persistent://public/default/orders"
CUSTOMERS = [f"customer-{number}" for number in range(8)]
ORDERS_AT_ONCE = 64


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[ManagedLedger]:
    """The topic's managed ledger, on a directory of this machine."""
    world = system_world(directory)
    metadata = await open_store("sqlite:metadata.db", world)
    ledgers = await FileLedgerStore.start(world, EngineConfig(journal_file_bytes=8 << 20))
    around = Surroundings(ledgers, StoredLedgerRecords(metadata), world.clock, owner="demo")
    orders = await load_managed_ledger(TOPIC, around)
    try:
        yield orders
    finally:
        await orders.unload()
        await ledgers.close()
        await metadata.close()


async def write(directory: Path, first: int) -> None:
    """Append until killed. One line for everything that was acknowledged, after the fact."""
    async with opened(directory) as orders:
        billing = await orders.open_cursor("billing", EARLIEST)
        for number in range(first, sys.maxsize, ORDERS_AT_ONCE):
            bodies = [order(n) for n in range(number, number + ORDERS_AT_ONCE)]
            position = await orders.append([Draft(body, crc32c(body)) for body in bodies])
            print("stored", position.ledger, position.entry, number, flush=True)
            if number // ORDERS_AT_ONCE % 8 == 0:
                billing.acknowledge_cumulative(position)
                await billing.persist()
                print("billed", position.ledger, position.entry, flush=True)


def order(number: int) -> bytes:
    customer = CUSTOMERS[number % len(CUSTOMERS)]
    return f"{customer} order {number} {'.' * (number % 200)}".encode()


@dataclass(slots=True)
class Acknowledged:
    stored: dict[Position, bytes] = field(default_factory=dict)
    billed: Position = EARLIEST
    next_order: int = 0

    def take(self, line: str) -> None:
        words = line.split()
        if not line.endswith("\n") or len(words) < 3:
            return  # cut short by the kill
        position = Position(int(words[1]), int(words[2]))
        if words[0] == "billed":
            self.billed = max(self.billed, position)
            return
        for offset in range(ORDERS_AT_ONCE):
            number = int(words[3]) + offset
            self.stored[Position(position.ledger, position.entry + offset)] = order(number)
            self.next_order = number + 1


def run_and_kill(directory: Path, seen: Acknowledged, lines: int) -> None:
    # Far above what the killed writer may have stored without telling: numbers only rise.
    command = [sys.executable, __file__, "--write", str(seen.next_order + 10**6)]
    command += ["--directory", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line, _ in zip(writer.stdout, range(lines), strict=False):
            seen.take(line)
        writer.kill()
        for line in writer.stdout:
            seen.take(line)


async def compare(directory: Path, seen: Acknowledged) -> list[str]:
    """What is wrong; nothing, if all is well."""
    wrong: list[str] = []
    missing = dict(seen.stored)
    latest: dict[str, int] = {}
    async with opened(directory) as orders:
        billing = await orders.open_cursor("billing", EARLIEST)
        if billing.mark_delete < seen.billed:
            wrong.append(f"billed up to {seen.billed}, the cursor is at {billing.mark_delete}")
        position, total = EARLIEST, 0
        while entries := await orders.read(position, max_entries=1000, max_bytes=1 << 20):
            for entry in entries:
                here, body = Position(entry.ledger, entry.entry), bytes(entry.body)
                if missing.pop(here, body) != body:
                    wrong.append(f"{here} holds other bytes than were acknowledged")
                customer, _, number = body.decode().split()[:3]
                if int(number) <= latest.get(customer, -1):
                    wrong.append(f"{here} is out of order for {customer}")
                latest[customer] = int(number)
            position, total = here.next(), total + len(entries)
    wrong += [f"{position} was acknowledged and is gone" for position in missing]
    print(f"found {total} entries, {len(seen.stored)} of them acknowledged, "
          f"billing at {billing.mark_delete}")  # fmt: skip
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="how often the writer is killed")
    parser.add_argument("--directory", type=Path, help="keep the data in this new directory")
    parser.add_argument("--write", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write is not None:
        asyncio.run(write(options.directory, options.write))
        return 0
    with tempfile.TemporaryDirectory(prefix="anabranch-demo-") as temporary:
        directory = options.directory or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        if any(directory.iterdir()):
            parser.error(f"{directory} is not empty; name a new directory")
        print(f"hot modules: {loaded_mode()}")
        seen = Acknowledged()
        for number in range(options.rounds):
            run_and_kill(directory, seen, lines=random.randrange(20, 400))
            print(f"round {number + 1}: writer killed, {len(seen.stored)} entries acknowledged")
        wrong = asyncio.run(compare(directory, seen))
    for problem in wrong[:20]:
        print(f"  {problem}")
    print("FAILED: acknowledged entries were lost or changed" if wrong else
          "PASSED: nothing acknowledged was lost, changed or reordered")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
