"""Every workload with hundreds of seeds, in chunks that test workers can share.

ANABRANCH_SEEDS says how many of each; `python -m tests.simulation` runs as many as you like.
"""

from __future__ import annotations

import os

import pytest

from tests.simulation.catalogue import WORKLOADS, failures_of

SEEDS = int(os.environ.get("ANABRANCH_SEEDS", "200"))
CHUNK = 25


@pytest.mark.parametrize("start", range(0, SEEDS, CHUNK))
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_seed_fails(name: str, start: int) -> None:
    failures = failures_of(WORKLOADS[name], range(start, min(start + CHUNK, SEEDS)))
    assert not failures, "\n\n".join(f"{failure.story}\n{failure}" for failure in failures)
