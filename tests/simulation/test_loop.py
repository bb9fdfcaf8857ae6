"""The loop of the simulated world: virtual time, an end to every wait, no threads."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from anabranch.runtime.world import World
from tests.simulation.loop import Deadlock, Overrun, SimulatedLoop
from tests.simulation.world import SimulatedWorld, run


def test_waiting_costs_virtual_time_only() -> None:
    async def scenario(world: SimulatedWorld) -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def wait(seconds: float, name: str) -> None:
            await asyncio.sleep(seconds)
            seen.append((world.loop.time(), name))

        await asyncio.gather(wait(86_400, "day"), wait(0.5, "blink"), wait(3600, "hour"))
        return seen

    seen, _ = run(1, scenario)
    assert seen == [(0.5, "blink"), (3600, "hour"), (86_400, "day")]


def test_a_timeout_fires_at_its_virtual_deadline() -> None:
    async def scenario(world: SimulatedWorld) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(7):
                await asyncio.Event().wait()
        return world.loop.time()

    assert run(1, scenario)[0] == 7


def test_a_wait_that_can_never_end_is_reported_with_its_stack() -> None:
    async def waits_for_nobody() -> None:
        await asyncio.get_running_loop().create_future()

    async def scenario(world: SimulatedWorld) -> None:
        await waits_for_nobody()

    with pytest.raises(Deadlock, match="waits_for_nobody"):
        run(1, scenario)


def test_a_run_without_end_meets_the_bound_on_steps() -> None:
    async def for_ever() -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    loop = SimulatedLoop(max_steps=1000)
    task = loop.create_task(for_ever())
    with pytest.raises(Overrun, match="1001 steps"):
        loop.run_until_complete(task)
    close_with(loop, task)


def test_a_run_without_end_meets_the_bound_on_virtual_time() -> None:
    async def for_ever() -> None:
        for _ in itertools.count():
            await asyncio.sleep(60)

    loop = SimulatedLoop(max_seconds=3600)
    task = loop.create_task(for_ever())
    with pytest.raises(Overrun, match="virtual time"):
        loop.run_until_complete(task)
    close_with(loop, task)


def close_with(loop: SimulatedLoop, task: asyncio.Task[None]) -> None:
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()


def test_threads_are_refused_loudly() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        with pytest.raises(AssertionError, match="thread"):
            await asyncio.to_thread(len, "abc")
        with pytest.raises(AssertionError, match="thread"):
            world.loop.call_soon_threadsafe(len, "abc")

    run(1, scenario)


def test_sets_of_tasks_and_futures_have_one_order_in_every_run() -> None:
    async def scenario(world: SimulatedWorld) -> list[int]:
        tasks = {asyncio.create_task(asyncio.sleep(0)) for _ in range(50)}
        futures = {world.loop.create_future() for _ in range(50)}
        return [hash(each) for each in (*tasks, *futures)]

    assert run(1, scenario)[0] == run(2, scenario)[0]


def test_an_error_nobody_retrieves_fails_the_run() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        async def fail() -> None:
            raise ValueError("nobody looks")

        task = asyncio.create_task(fail())
        await asyncio.sleep(1)
        del task

    with pytest.raises(AssertionError, match="nobody looks"):
        run(1, scenario)


def test_a_paused_process_runs_nothing_and_catches_up_in_order() -> None:
    async def scenario(world: SimulatedWorld) -> list[str]:
        seen: list[str] = []

        async def main(inner: World) -> None:
            for number in range(4):
                await asyncio.sleep(1)
                seen.append(f"{number} at {world.loop.time():.0f}")

        machine = world.machine("a")
        process = machine.spawn(main)
        await asyncio.sleep(1.5)
        machine.pause()
        await asyncio.sleep(100.5)
        assert seen == ["0 at 1"]
        machine.resume()
        await process.exited()
        return seen

    assert run(1, scenario)[0] == ["0 at 1", "1 at 102", "2 at 103", "3 at 104"]


def test_the_dead_reach_nothing() -> None:
    async def scenario(world: SimulatedWorld) -> list[str]:
        seen: list[str] = []

        async def main(inner: World) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                seen.append("cleanup runs")
                with pytest.raises(asyncio.CancelledError):
                    await inner.disk.open("last words", create=True)
                with pytest.raises(asyncio.CancelledError):
                    inner.disk.lock("lock")
                with pytest.raises(asyncio.CancelledError):
                    await inner.network.connect(asyncio.Protocol, "a", 1)

        machine = world.machine("a")
        process = machine.spawn(main)
        await asyncio.sleep(1)
        machine.kill()
        assert await process.exited() == "killed"
        assert machine.disk.namespace.names == {}
        return seen

    assert run(1, scenario)[0] == ["cleanup runs"]


def test_every_task_a_process_started_ends_with_it() -> None:
    async def scenario(world: SimulatedWorld) -> int:
        beats = 0

        async def beat() -> None:
            nonlocal beats
            while True:
                await asyncio.sleep(1)
                beats += 1

        async def main(inner: World) -> None:
            tasks = [asyncio.create_task(beat()) for _ in range(3)]
            await asyncio.wait(tasks)

        machine = world.machine("a")
        machine.spawn(main)
        await asyncio.sleep(2.5)
        machine.kill()
        await asyncio.sleep(100)
        return beats

    assert run(1, scenario)[0] == 6


def test_the_wall_clock_jumps_and_drifts_and_the_monotonic_one_does_not() -> None:
    async def scenario(world: SimulatedWorld) -> None:
        machine = world.machine("a")
        readings: list[tuple[int, float]] = []

        async def main(inner: World) -> None:
            while True:
                readings.append((inner.clock.wall_ms(), inner.clock.monotonic()))
                await asyncio.sleep(1)

        machine.spawn(main)
        await asyncio.sleep(0.5)
        machine.clock.jump(-3_600_000)
        await asyncio.sleep(1)
        machine.clock.drift_by(0.5)
        await asyncio.sleep(1)
        machine.kill()
        (wall0, mono0), (wall1, mono1), (wall2, mono2) = readings
        assert [mono1 - mono0, mono2 - mono1] == pytest.approx([1, 1])
        assert wall1 - wall0 == 1000 - 3_600_000
        assert wall2 - wall1 == 500 + 750  # half a second before the drift began, half after

    run(1, scenario)


def test_a_process_that_fails_unwatched_fails_the_run() -> None:
    async def main(world: World) -> None:
        raise ValueError("on its own")

    async def scenario(world: SimulatedWorld) -> None:
        world.machine("a").spawn(main)
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match="on its own"):
        run(1, scenario)
