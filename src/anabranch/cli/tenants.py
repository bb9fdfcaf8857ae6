"""Tenants: who may have namespaces."""

from __future__ import annotations

import click

from anabranch.cli.asking import Asking, asking


@click.group()
def tenants() -> None:
    """Tenants: who may have namespaces."""


@tenants.command("list")
@asking
def list_tenants(asked: Asking) -> None:
    """All tenants."""
    asked.show(asked.get("tenants"))


@tenants.command()
@click.argument("tenant")
@asking
def get(asked: Asking, tenant: str) -> None:
    """Its roles and clusters."""
    asked.show(asked.get("tenants", tenant))


def _body(asked: Asking, clusters: str, roles: str) -> dict[str, list[str]]:
    chosen = [each for each in clusters.split(",") if each] or asked.get("clusters")
    return {"allowedClusters": chosen, "adminRoles": [each for each in roles.split(",") if each]}


@tenants.command()
@click.argument("tenant")
@click.option("-c", "--allowed-clusters", default="", help="With commas; all, if not given.")
@click.option("-r", "--admin-roles", default="", help="With commas.")
@asking
def create(asked: Asking, tenant: str, allowed_clusters: str, admin_roles: str) -> None:
    """Add a tenant."""
    body = _body(asked, allowed_clusters, admin_roles)
    asked.done(f"created tenant {tenant}", "PUT", "tenants", tenant, body=body)


@tenants.command()
@click.argument("tenant")
@click.option("-c", "--allowed-clusters", default="", help="With commas; all, if not given.")
@click.option("-r", "--admin-roles", default="", help="With commas.")
@asking
def update(asked: Asking, tenant: str, allowed_clusters: str, admin_roles: str) -> None:
    """Change its roles and clusters."""
    body = _body(asked, allowed_clusters, admin_roles)
    asked.done(f"updated tenant {tenant}", "POST", "tenants", tenant, body=body)


@tenants.command()
@click.argument("tenant")
@click.option("-f", "--force", is_flag=True, help="With all its namespaces and topics.")
@asking
def delete(asked: Asking, tenant: str, force: bool) -> None:
    """Remove a tenant."""
    asked.done(f"deleted tenant {tenant}", "DELETE", "tenants", tenant, query={"force": force})
