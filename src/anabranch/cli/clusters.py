"""Clusters and where they are reached."""

from __future__ import annotations

import click

from anabranch.cli.asking import Asking, asking


@click.group()
def clusters() -> None:
    """Clusters and where they are reached."""


@clusters.command("list")
@asking
def list_clusters(asked: Asking) -> None:
    """All clusters."""
    asked.show(asked.get("clusters"))


@clusters.command()
@click.argument("cluster")
@asking
def get(asked: Asking, cluster: str) -> None:
    """Its addresses."""
    asked.show(asked.get("clusters", cluster))


def _body(url: str, broker_url: str) -> dict[str, str]:
    given = {"serviceUrl": url, "brokerServiceUrl": broker_url}
    return {name: text for name, text in given.items() if text}


@clusters.command()
@click.argument("cluster")
@click.option("--url", default="", help="Of its REST API, http://…")
@click.option("--broker-url", default="", help="Of its binary protocol, pulsar://…")
@asking
def create(asked: Asking, cluster: str, url: str, broker_url: str) -> None:
    """Add a cluster."""
    body = _body(url, broker_url)
    asked.done(f"created cluster {cluster}", "PUT", "clusters", cluster, body=body)


@clusters.command()
@click.argument("cluster")
@click.option("--url", default="", help="Of its REST API, http://…")
@click.option("--broker-url", default="", help="Of its binary protocol, pulsar://…")
@asking
def update(asked: Asking, cluster: str, url: str, broker_url: str) -> None:
    """Change its addresses."""
    body = _body(url, broker_url)
    asked.done(f"updated cluster {cluster}", "POST", "clusters", cluster, body=body)


@clusters.command()
@click.argument("cluster")
@asking
def delete(asked: Asking, cluster: str) -> None:
    """Remove a cluster."""
    asked.done(f"deleted cluster {cluster}", "DELETE", "clusters", cluster)
