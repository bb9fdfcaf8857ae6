"""One seed replays one run exactly: in another process, with another hash seed, in any order."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.catalogue import WORKLOADS, run_seed

ROOT = Path(__file__).parent.parent.parent
SEEDS = (1, 2, 3, 4, 5)
SCRIPT = """
import sys
from tests.simulation.catalogue import WORKLOADS, run_seed
for seed in map(int, sys.argv[2:]):
    world = run_seed(WORKLOADS[sys.argv[1]], seed)
    print(seed, world.trace.digest(), world.trace.count, world.loop.steps)
"""


def digests(name: str, seeds: tuple[int, ...], hash_seed: int) -> list[str]:
    """In a process of its own; sorted, because the order of the seeds must not matter."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "ANABRANCH_PURE": "1"}
    command = [sys.executable, "-c", SCRIPT, name, *map(str, seeds)]
    found = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    return sorted(found.stdout.splitlines())


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_replays_exactly_in_another_process(name: str) -> None:
    forth = digests(name, SEEDS, hash_seed=1)
    assert len({line.split()[1] for line in forth}) == len(SEEDS), "seeds that make no difference"
    assert digests(name, tuple(reversed(SEEDS)), hash_seed=2) == forth


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_seed_replays_exactly_after_others_in_the_same_process(name: str) -> None:
    workload = WORKLOADS[name]
    first = run_seed(workload, 7).trace.digest()
    run_seed(workload, 8)
    assert run_seed(workload, 7).trace.digest() == first
