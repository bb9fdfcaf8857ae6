"""Arguments in, exit code out."""

from __future__ import annotations

import click

import anabranch
from anabranch.runtime import build_mode


@click.group()
@click.version_option(
    message=f"anabranch {anabranch.__version__} ({build_mode.loaded_mode()})",
)
def main() -> None:
    """Anabranch: scalable topics for Python and Spark."""
