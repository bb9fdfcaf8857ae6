"""Every workload with hundreds of seeds, in chunks that test workers can share.

ANABRANCH_SEEDS says how many of each, of the dear ones fewer; `python -m tests.simulation` runs as
many as you like.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.catalogue import WORKLOADS, failures_of

SEEDS = int(os.environ.get("ANABRANCH_SEEDS", "200"))
CHUNK = 25


CHUNKS = [
    (workload.name, start)
    for workload in WORKLOADS.values()
    for start in range(0, int(SEEDS * workload.daily_share), CHUNK)
]


@pytest.mark.parametrize(("name", "start"), CHUNKS)
def test_no_seed_fails(name: str, start: int) -> None:
    end = min(start + CHUNK, int(SEEDS * WORKLOADS[name].daily_share))
    failures = failures_of(WORKLOADS[name], range(start, end))
    assert not failures, "\n\n".join(f"{failure.story}\n{failure}" for failure in failures)
