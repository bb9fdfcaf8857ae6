"""Run as many seeds as you like, or replay one.

    python -m tests.simulation --seeds 10000 --start 0 --workload all --jobs 2
    python -m tests.simulation --workload sqlite-crashes --seed 29 --trace

The exit code is 1 if a seed fails; each failing one is printed with the command that replays it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor

# A replay must not depend on whether the hot modules happen to be compiled at this moment.
os.environ.setdefault("ANABRANCH_PURE", "1")  # before the first import of it

from tests.simulation.catalogue import (
    WORKLOADS,
    Failure,
    chosen,
    failures_of,
    run_chunk,
    run_seed,
)

CHUNK = 25


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.seed is not None:
        return replay(options)
    failures = 0
    for name, count, seconds, failed in run_all(options):
        for failure in failed:
            print(f"\n{failure.story}\n{failure}", flush=True)
        failures += len(failed)
        rate = 1000 * seconds / max(1, count)
        print(f"{name}: {count} seeds, {failures} failed so far, {rate:.1f} ms each", flush=True)
    print("no seed failed" if not failures else f"{failures} seeds failed")
    return int(failures > 0)


def parse(arguments: list[str]) -> argparse.Namespace:
    names = sorted({"all", *WORKLOADS, *(each.group for each in WORKLOADS.values())})
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--workload", choices=names, default="all", metavar="|".join(names))
    parser.add_argument("--seeds", type=int, default=1000, help="how many, of each workload")
    parser.add_argument("--start", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happens")
    return parser.parse_args(arguments)


def replay(options: argparse.Namespace) -> int:
    for workload in chosen(options.workload):
        try:
            world = run_seed(workload, options.seed, print if options.trace else None)
        except Exception:
            (failure,) = failures_of(workload, [options.seed])
            print(f"{failure.story}\n{failure}")
            return 1
        print(f"{workload.name} seed {options.seed} passes: trace {world.trace.digest()}")
    return 0


def run_all(options: argparse.Namespace) -> Iterator[tuple[str, int, float, list[Failure]]]:
    """One result for about every two percent of a workload."""
    last = options.start + options.seeds
    chunks = [
        (workload.name, start, min(start + CHUNK, last))
        for workload in chosen(options.workload)
        for start in range(options.start, last, CHUNK)
    ]
    per_report = max(1, options.seeds // CHUNK // 20)
    name, count, seconds, failed, waiting = "", 0, 0.0, list[Failure](), 0
    with ProcessPoolExecutor(options.jobs) as pool:
        for result in pool.map(run_chunk, chunks):
            if name and (result[0] != name or waiting == per_report):
                yield name, count, seconds, failed
                failed, waiting = [], 0
                if result[0] != name:
                    count, seconds = 0, 0.0
            name, waiting = result[0], waiting + 1
            count, seconds = count + result[1], seconds + result[2]
            failed = [*failed, *result[3]]
    yield name, count, seconds, failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
