"""The command `anabranch`, and which file each of its commands lies in."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

import anabranch
from anabranch.cli.asking import ADMIN_URL, Asking
from anabranch.runtime import build_mode

COMMANDS: Final = {
    "standalone": "Run a broker with everything embedded.",
    "brokers": "Health and configuration of the broker.",
    "clusters": "Clusters and where they are reached.",
    "tenants": "Tenants: who may have namespaces.",
    "namespaces": "Namespaces and their policies.",
    "topics": "Topics, partitions and subscriptions.",
    "schemas": "Schemas of topics.",
    "produce": "Send messages to a topic.",
    "consume": "Receive messages from a topic.",
}


class LazyGroup(click.Group):
    """A command is imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = getattr(import_module(f"anabranch.cli.{cmd_name}"), cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # Without importing any of them.
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--admin-url",
    envvar="ANABRANCH_ADMIN_URL",
    default=ADMIN_URL,
    show_default=True,
    help="The broker's REST address; also $ANABRANCH_ADMIN_URL.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@click.version_option(message=f"anabranch {anabranch.__version__} ({build_mode.loaded_mode()})")
@click.pass_context
def main(ctx: click.Context, admin_url: str, as_json: bool) -> Any:
    """Anabranch: scalable topics for Python and Spark.

    Exit codes: 0 done, 1 refused or failed, 2 not understood.
    """
    ctx.obj = Asking(admin_url, as_json=as_json)
