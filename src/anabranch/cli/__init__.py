"""Arguments in, exit code out: 0 done, 1 refused or failed (with a reason on standard error), 2
not understood.

Commands are imported when they are used, so that none pays for the others. The verbs are those of
pulsar-admin and pulsar-client.
"""

from __future__ import annotations

from anabranch.cli.entry import main

__all__ = ["main"]
