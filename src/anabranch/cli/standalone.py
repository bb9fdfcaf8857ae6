"""The command that runs a broker with everything embedded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from anabranch.broker.config import Config, load_config
from anabranch.errors import AnabranchError
from anabranch.node import start_node
from anabranch.runtime.system import system_world


@click.command()
@click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="Everything that is kept lies here.",
)
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Of the binary protocol; 0 picks a free one.")
@click.option("--http-port", type=int, help="Of REST and metrics; 0 picks a free one.")
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A TOML file.",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Wins over the file.")
@click.option("--verbose", is_flag=True, help="Log more than an operator's timeline.")
def standalone(
    data_dir: Path,
    host: str | None,
    port: int | None,
    http_port: int | None,
    config_file: Path | None,
    settings: Sequence[str],
    verbose: bool,
) -> None:
    """Run a broker with everything embedded, until SIGTERM or SIGINT."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s %(message)s",
    )
    try:
        config = _config(config_file, settings, host, port, http_port)
        data_dir.mkdir(parents=True, exist_ok=True)
        asyncio.run(_serve(data_dir, config))
    except (AnabranchError, OSError) as error:
        raise click.ClickException(str(error)) from error


def _config(
    file: Path | None,
    settings: Sequence[str],
    host: str | None,
    port: int | None,
    http_port: int | None,
) -> Config:
    text = "" if file is None else file.read_text()
    config = load_config(text, settings, file=str(file))
    server = config.server
    return replace(
        config,
        server=replace(
            server,
            host=server.host if host is None else host,
            port=server.port if port is None else port,
            http_port=server.http_port if http_port is None else http_port,
        ),
    )


async def _serve(data_dir: Path, config: Config) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stopping.set)
    node = await start_node(system_world(data_dir), config)
    click.echo(f"ready {node.broker.service_url} {node.admin.http_url}")
    await stopping.wait()
    await node.stop()
