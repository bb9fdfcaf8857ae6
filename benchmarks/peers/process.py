"""What a process has used so far, as the kernel counts it. Linux only, like the peers' binaries."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Usage:
    cpu_seconds: float
    rss_mb: float


def usage_of(pid: int) -> Usage:
    """All threads of one process; user and system time together."""
    # The name of the program may hold anything, so fields are counted from behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return Usage(
        (int(fields[11]) + int(fields[12])) / TICKS, pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    )
