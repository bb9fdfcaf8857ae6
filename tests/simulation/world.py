"""A run: one seed, a loop, a network, machines; nothing in it comes from anywhere else.

    def scenario(world: SimulatedWorld) -> Coroutine: ...
    run(seed, scenario)

The scenario is the experimenter: it stands outside all machines, starts processes on them, breaks
things and compares. It is the only code that belongs to no process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any, TypeVar

from tests.simulation.loop import Deadlock, Overrun, SimulatedLoop
from tests.simulation.machine import Machine
from tests.simulation.network import Fabric
from tests.simulation.process import PROCESS, force_cancel
from tests.simulation.trace import Trace

T = TypeVar("T")


class SimulatedWorld:
    def __init__(self, seed: int, loop: SimulatedLoop) -> None:
        self.seed = seed
        self.loop = loop
        self.trace = Trace(loop.time)
        self.random = Random(f"{seed}/scenario")
        self.network = Fabric(Random(f"{seed}/network"), loop, self.trace)
        self.machines: dict[str, Machine] = {}
        self.errors: list[str] = []
        loop.set_exception_handler(self._record_error)

    def machine(self, name: str) -> Machine:
        if name not in self.machines:
            self.machines[name] = Machine(
                name, str(self.seed), self.loop, self.network, self.trace, self.errors.append
            )
        return self.machines[name]

    def _record_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """asyncio's complaints are failures of the run, unless a dead process makes them."""
        task = context.get("task") or context.get("future")
        process = PROCESS.get()
        if process is not None and not process.alive:
            return
        error = context.get("exception")
        self.errors.append(f"{context.get('message')}: {error!r} in {task}")

    async def bury(self) -> None:
        """End every process, and wait for the cleanup of their tasks, which reaches nothing."""
        for machine in self.machines.values():
            machine.kill()
        for _ in range(1000):
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            if not tasks:
                return
            for task in sorted(tasks, key=hash):
                force_cancel(task)
            await asyncio.wait(tasks, timeout=1.0)
        raise AssertionError(f"tasks that do not let themselves be cancelled: {tasks}")


Scenario = Callable[[SimulatedWorld], Coroutine[Any, Any, T]]


def run(
    seed: int, scenario: Scenario[T], *, listener: Callable[[str], None] | None = None
) -> tuple[T, SimulatedWorld]:
    """Run it to its end; any failure carries the seed, and the world is there to be asked."""
    loop = SimulatedLoop()
    world = SimulatedWorld(seed, loop)
    world.trace.listener = listener
    whole = loop.create_task(_whole(world, scenario))
    with _quiet_interpreter(seed, listener):
        try:
            result = loop.run_until_complete(whole)
        except BaseException as error:
            error.add_note("\n".join((*world.errors, _story(world))))
            raise
        finally:
            _close(loop, whole)
    _check_errors(world)
    return result, world


def _check_errors(world: SimulatedWorld) -> None:
    # Everything the run left is young, as nothing was collected meanwhile; asyncio complains about
    # an error that nobody looked at when its task is collected.
    gc.collect(0)
    errors = "\n".join(world.errors)
    assert not errors, f"seed {world.seed}: {errors}\n{_story(world)}"


async def _whole(world: SimulatedWorld, scenario: Scenario[T]) -> T:
    try:
        return await scenario(world)
    finally:
        await world.bury()


def _story(world: SimulatedWorld) -> str:
    lines = "\n".join(world.trace.last(40))
    return f"seed {world.seed}, trace {world.trace.digest()}, its end:\n{lines}"


def _close(loop: SimulatedLoop, whole: asyncio.Task[Any]) -> None:
    """A run that broke off was reported already; its tasks get a last chance to clean up."""
    if not whole.done():
        loop.steps = 0
        whole.cancel()
        with suppress(Deadlock, Overrun, asyncio.CancelledError):
            loop.run_until_complete(whole)
    for task in asyncio.all_tasks(loop):
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()


@contextmanager
def _quiet_interpreter(seed: int, listener: Callable[[str], None] | None) -> Iterator[None]:
    """No garbage collection in the middle: finalizers would run at another point each time."""
    from tests.simulation.database import seed_sqlite

    restore = seed_sqlite(Random(f"{seed}/sqlite"))
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        with _logging_to(listener):
            yield
    finally:
        restore()
        if was_enabled:
            gc.enable()


@contextmanager
def _logging_to(listener: Callable[[str], None] | None) -> Iterator[None]:
    """The code's own log goes between the events of a trace, or nowhere."""
    if listener is None:
        before = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            yield
        finally:
            logging.disable(before)
        return
    handler = _Forward(listener)
    logging.root.addHandler(handler)
    level = logging.root.level
    logging.root.setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.root.setLevel(level)
        logging.root.removeHandler(handler)


class _Forward(logging.Handler):
    def __init__(self, listener: Callable[[str], None]) -> None:
        super().__init__()
        self._listener = listener

    def emit(self, record: logging.LogRecord) -> None:
        self._listener(f"{'':27} {record.levelname} {record.name}: {record.getMessage()}")
