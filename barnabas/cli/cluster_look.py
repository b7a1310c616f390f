"""Asks for what `status` and `cluster` show."""

from typing import TYPE_CHECKING

import click

from barnabas.cli.options import open_admin

if TYPE_CHECKING:
    from barnabas.client.admin.cluster import BrokerDetails
    from barnabas.client.metadata_snapshot import MetadataSnapshot


def look(ctx: click.Context) -> tuple["MetadataSnapshot", dict[int, "BrokerDetails"]]:
    """All topics, and the details that each broker reports."""
    with open_admin(ctx) as admin:
        return admin.topics(), admin.describe_brokers()
