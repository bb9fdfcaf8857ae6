"""Health and configuration of the broker."""

from __future__ import annotations

import click

from anabranch.cli.asking import Asking, asking


@click.group()
def brokers() -> None:
    """Health and configuration of the broker."""


@brokers.command("list")
@click.argument("cluster", default="")
@asking
def list_brokers(asked: Asking, cluster: str) -> None:
    """All brokers, or those of a cluster."""
    asked.show(asked.get("brokers", *([cluster] if cluster else [])))


@brokers.command()
@asking
def healthcheck(asked: Asking) -> None:
    """Is it well? Exit code 1 if not."""
    asked.show(asked.get("brokers", "health"))


@brokers.command()
@asking
def version(asked: Asking) -> None:
    """Which version it runs."""
    asked.show(asked.get("brokers", "version"))


@brokers.command("leader-broker")
@asking
def leader_broker(asked: Asking) -> None:
    """The broker that leads."""
    asked.show(asked.get("brokers", "leaderBroker"))


@brokers.command("list-dynamic-config")
@asking
def list_dynamic_config(asked: Asking) -> None:
    """Settings that can be changed while it runs."""
    asked.show(asked.get("brokers", "configuration"))


@brokers.command("get-all-dynamic-config")
@asking
def get_all_dynamic_config(asked: Asking) -> None:
    """Settings that were changed while it ran."""
    asked.show(asked.get("brokers", "configuration", "values"))


@brokers.command("get-runtime-config")
@asking
def get_runtime_config(asked: Asking) -> None:
    """Every setting as it holds now."""
    asked.show(asked.get("brokers", "configuration", "runtime"))


@brokers.command("update-dynamic-config")
@click.option("--config", "key", required=True, help="The key.")
@click.option("--value", required=True, help="Its new value.")
@asking
def update_dynamic_config(asked: Asking, key: str, value: str) -> None:
    """Change a setting; it holds after a restart too."""
    asked.done(f"set {key} to {value}", "POST", "brokers", "configuration", key, value)


@brokers.command("delete-dynamic-config")
@click.option("--config", "key", required=True, help="The key.")
@asking
def delete_dynamic_config(asked: Asking, key: str) -> None:
    """Back to what the configuration file says."""
    asked.done(f"unset {key}", "DELETE", "brokers", "configuration", key)
