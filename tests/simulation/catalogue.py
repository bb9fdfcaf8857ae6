"""Every workload by name, and how one seed of it is run."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from typing import Any

from tests.simulation.workloads.broker_access import contest_a_topic
from tests.simulation.workloads.broker_crashes import crash_a_broker
from tests.simulation.workloads.echo import echo_through_a_bad_network
from tests.simulation.workloads.elections import elect_through_pauses_and_cuts
from tests.simulation.workloads.managed_crashes import crash_managed_ledgers
from tests.simulation.workloads.managed_zombies import contest_a_managed_ledger
from tests.simulation.workloads.sqlite_crashes import crash_the_sqlite_engine
from tests.simulation.workloads.sqlite_flips import flip_a_bit_of_the_database
from tests.simulation.workloads.storage_crashes import crash_the_ledger_engine
from tests.simulation.workloads.storage_flips import flip_a_bit_of_the_ledger_engine
from tests.simulation.world import SimulatedWorld, run


@dataclass(frozen=True, slots=True)
class Workload:
    name: str
    group: str  # what `--workload` may also call it
    scenario: Callable[[SimulatedWorld], Coroutine[Any, Any, None]]
    daily_share: float = 1.0  # of the seeds that every test run tries; less for the dear ones


WORKLOADS = {
    workload.name: workload
    for workload in (
        Workload("storage-crashes", "storage", crash_the_ledger_engine),
        Workload("storage-flips", "storage", flip_a_bit_of_the_ledger_engine),
        Workload("managed-crashes", "storage", crash_managed_ledgers),
        Workload("managed-zombies", "storage", contest_a_managed_ledger),
        Workload("elections", "metadata", elect_through_pauses_and_cuts),
        Workload("sqlite-crashes", "metadata", crash_the_sqlite_engine),
        Workload("sqlite-flips", "metadata", flip_a_bit_of_the_database),
        Workload("broker-crashes", "broker", crash_a_broker, daily_share=0.5),
        Workload("broker-access", "broker", contest_a_topic, daily_share=0.5),
        Workload("echo", "network", echo_through_a_bad_network),
    )
}


def chosen(name: str) -> list[Workload]:
    """By its own name, by the name of its group, or all of them."""
    return [
        workload
        for workload in WORKLOADS.values()
        if name in ("all", workload.name, workload.group)
    ]


def run_seed(
    workload: Workload, seed: int, listener: Callable[[str], None] | None = None
) -> SimulatedWorld:
    return run(seed, workload.scenario, listener=listener)[1]


@dataclass(frozen=True, slots=True)
class Failure:
    workload: str
    seed: int
    story: str

    def command(self) -> str:
        return f"python -m tests.simulation --workload {self.workload} --seed {self.seed} --trace"

    def __str__(self) -> str:
        return f"{self.workload} seed {self.seed} fails; replay it with\n  {self.command()}"


def failures_of(workload: Workload, seeds: Iterable[int]) -> list[Failure]:
    """Run many seeds; whatever one of them raises is its failure, not ours."""
    failures = []
    # A run collects its own garbage at its end; what was there before is not looked at each time.
    gc.collect()
    gc.freeze()
    try:
        for seed in seeds:
            try:
                run_seed(workload, seed)
            except Exception:
                failures.append(Failure(workload.name, seed, traceback.format_exc()))
    finally:
        gc.unfreeze()
    return failures


def run_chunk(chunk: tuple[str, int, int]) -> tuple[str, int, float, list[Failure]]:
    """For worker processes: (workload, first seed, end) to (workload, seeds, seconds, failures)."""
    name, start, end = chunk
    began = time.process_time()
    failures = failures_of(WORKLOADS[name], range(start, end))
    return name, end - start, time.process_time() - began, failures
