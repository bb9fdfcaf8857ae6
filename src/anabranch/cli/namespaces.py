"""Namespaces and their policies."""

from __future__ import annotations

from typing import Any

import click

from anabranch.cli.asking import Asking, asking, namespace_elements
from anabranch.cli.policies import OF_NAMESPACES, add_policies


def elements(name: str) -> tuple[str, ...]:
    return ("namespaces", *namespace_elements(name))


@click.group()
def namespaces() -> None:
    """Namespaces and their policies."""


add_policies(namespaces, OF_NAMESPACES, elements)


@namespaces.command("list")
@click.argument("tenant")
@asking
def list_namespaces(asked: Asking, tenant: str) -> None:
    """The namespaces of a tenant."""
    asked.show(asked.get("namespaces", tenant))


@namespaces.command()
@click.argument("namespace")
@asking
def topics(asked: Asking, namespace: str) -> None:
    """Its topics, with their partitions."""
    asked.show(asked.get(*elements(namespace), "topics"))


@namespaces.command()
@click.argument("namespace")
@asking
def policies(asked: Asking, namespace: str) -> None:
    """Everything that is set for a namespace."""
    asked.show(asked.get(*elements(namespace)))


@namespaces.command()
@click.argument("namespace")
@click.option("-b", "--bundles", type=int, help="How many.")
@asking
def create(asked: Asking, namespace: str, bundles: int | None) -> None:
    """Add a namespace."""
    body: Any = None if bundles is None else {"bundles": {"numBundles": bundles}}
    asked.done(f"created namespace {namespace}", "PUT", *elements(namespace), body=body)


@namespaces.command()
@click.argument("namespace")
@click.option("-f", "--force", is_flag=True, help="With all its topics.")
@asking
def delete(asked: Asking, namespace: str, force: bool) -> None:
    """Remove a namespace."""
    query = {"force": force}
    asked.done(f"deleted namespace {namespace}", "DELETE", *elements(namespace), query=query)


@namespaces.command()
@click.argument("namespace")
@asking
def unload(asked: Asking, namespace: str) -> None:
    """Unload its topics; clients come back by themselves."""
    asked.done(f"unloaded {namespace}", "PUT", *elements(namespace), "unload")


@namespaces.command("clear-backlog")
@click.argument("namespace")
@click.option("-s", "--sub", help="Of this subscription only.")
@asking
def clear_backlog(asked: Asking, namespace: str, sub: str | None) -> None:
    """Skip everything that is not acknowledged, on every topic."""
    path = (*elements(namespace), "clearBacklog", *([] if sub is None else [sub]))
    asked.done(f"cleared the backlog of {namespace}", "POST", *path)


@namespaces.command()
@click.argument("namespace")
@click.option("-s", "--sub", required=True)
@asking
def unsubscribe(asked: Asking, namespace: str, sub: str) -> None:
    """End a subscription on every topic."""
    path = (*elements(namespace), "unsubscribe", sub)
    asked.done(f"ended subscription {sub} on {namespace}", "POST", *path)


@namespaces.command()
@click.argument("namespace")
@asking
def bundles(asked: Asking, namespace: str) -> None:
    """Its bundles."""
    asked.show(asked.get(*elements(namespace), "bundles"))
