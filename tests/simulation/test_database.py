"""The real SQLite on the simulated disk: what it committed survives, wherever its machine dies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

import pytest

from anabranch.errors import Full, Unavailable
from anabranch.runtime.world import Database, SqlConnection, World
from tests.simulation.world import SimulatedWorld, run


def insert(number: int) -> Callable[[SqlConnection], object]:
    def work(connection: SqlConnection) -> None:
        # Two rows and some bulk, so that a transaction is several pages, and half of it shows.
        connection.execute("INSERT INTO numbers VALUES (?, ?)", (number, bytes(3000)))
        connection.execute("INSERT INTO numbers VALUES (?, ?)", (-number, b""))

    return work


def create(connection: SqlConnection) -> None:
    connection.execute("CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY, bulk BLOB)")


async def numbers_in(database: Database) -> list[int]:
    def work(connection: SqlConnection) -> list[int]:
        rows = connection.execute("SELECT number FROM numbers WHERE number > 0 ORDER BY number")
        pairs = connection.execute("SELECT count(*) FROM numbers")
        assert pairs == [(2 * len(rows),)]
        return [int(row[0]) for row in rows if isinstance(row[0], int)]

    return await database.transact(work)


def committed_and_found(seed: int, calls: int, *, power: bool) -> tuple[list[int], list[int]]:
    committed: list[int] = []
    found: list[int] = []

    async def writer(world: World) -> None:
        database = await world.disk.open_database("numbers.db")
        await database.transact(create)
        for number in range(1, 30):
            await database.transact(insert(number))
            committed.append(number)
        await database.close()

    async def reader(world: World) -> None:
        database = await world.disk.open_database("numbers.db")
        await database.transact(create)
        found.extend(await numbers_in(database))
        await database.close()

    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")
        machine.disk.crash_in(calls, machine.power_off if power else machine.kill)
        await machine.spawn(writer).exited()
        machine.disk.never_mind_crash()
        machine.kill()
        await machine.spawn(reader).exited()

    run(seed, scenario)
    return committed, found


@pytest.mark.parametrize("power", [False, True], ids=["killed", "without power"])
def test_committed_rows_survive_a_death_in_any_call(power: bool) -> None:
    lost_in_flight = 0
    for seed in range(120):
        committed, found = committed_and_found(seed, 1 + 2 * seed, power=power)
        assert found[: len(committed)] == committed
        assert len(found) <= len(committed) + 1, "a transaction that was never begun"
        lost_in_flight += len(committed) < 29
    assert lost_in_flight > 50, "hardly any run died in the middle"


def test_a_lying_sync_loses_committed_rows() -> None:
    """The proof that the test above can fail."""

    async def writer(world: World) -> None:
        database = await world.disk.open_database("numbers.db")
        await database.transact(create)
        await database.transact(insert(1))
        await asyncio.sleep(1000)

    async def scenario(world: SimulatedWorld) -> bool:
        machine = world.machine("a")
        machine.disk.faults.sync_lies = True
        machine.spawn(writer)
        await asyncio.sleep(1)
        machine.power_off()
        inode = machine.disk.namespace.names.get("numbers.db-wal")
        return inode is None or len(inode.cache) < 3000

    assert any(run(seed, scenario)[0] for seed in range(20))


def test_an_error_rolls_back_and_the_database_goes_on() -> None:
    async def main(world: World) -> None:
        database = await world.disk.open_database("numbers.db")
        await database.transact(create)

        def fail(connection: SqlConnection) -> None:
            insert(1)(connection)
            raise ValueError("no")

        with pytest.raises(ValueError, match="no"):
            await database.transact(fail)
        await database.transact(insert(2))
        assert await numbers_in(database) == [2]

    async def scenario(world: SimulatedWorld) -> None:
        await world.machine("a").spawn(main).exited()

    run(1, scenario)


def test_transactions_run_in_the_order_they_were_made() -> None:
    async def main(world: World) -> None:
        database = await world.disk.open_database("numbers.db")
        order: list[int] = []

        def note(number: int, connection: SqlConnection) -> None:
            order.append(number)

        await asyncio.gather(*(database.transact(partial(note, n)) for n in range(20)))
        assert order == list(range(20))

    async def scenario(world: SimulatedWorld) -> None:
        await world.machine("a").spawn(main).exited()

    for seed in range(10):
        run(seed, scenario)


def test_sqlites_own_randomness_comes_from_the_seed() -> None:
    async def scenario(world: SimulatedWorld) -> list[object]:
        found: list[object] = []

        async def main(inner: World) -> None:
            database = await inner.disk.open_database("numbers.db")
            found.extend(await database.transact(lambda c: c.execute("SELECT hex(randomblob(8))")))

        await world.machine("a").spawn(main).exited()
        return found

    assert run(1, scenario)[0] == run(1, scenario)[0] != run(2, scenario)[0]


def test_a_full_disk_and_a_failed_sync_arrive_as_the_errors_of_the_contract() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")

        async def main(inner: World) -> None:
            database = await inner.disk.open_database("numbers.db")
            await database.transact(create)
            machine.disk.faults.capacity_bytes = machine.disk.namespace.used_bytes() + 1000
            with pytest.raises(Full):
                await database.transact(insert(1))
            machine.disk.faults.capacity_bytes *= 100
            await database.transact(insert(2))
            assert await numbers_in(database) == [2]
            machine.disk.faults.fail_sync_in = 1
            with pytest.raises(Unavailable):
                await database.transact(insert(3))

        await machine.spawn(main).exited()

    run(1, scenario)
