"""Administration that blocks: the same flows, run by the calling thread."""

from typing import Self

from barnabas.client.admin.admin import Admin as Flows
from barnabas.client.blocking import open_cluster
from barnabas.client.blocking.net import mirrored
from barnabas.client.cluster import ClusterClient
from barnabas.config.client import Settings, Value


class Admin:
    """Administration of one cluster. `cluster`: one that is open already, and stays so."""

    def __init__(
        self,
        settings: Settings | None = None,
        /,
        *,
        cluster: ClusterClient | None = None,
        **options: Value,
    ) -> None:
        self._opened = open_cluster(settings, options) if cluster is None else None
        self._body = Flows(cluster=cluster or self._opened)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()

    topics = mirrored(Flows.topics)
    topic = mirrored(Flows.topic)
    create_topic = mirrored(Flows.create_topic)
    delete_topic = mirrored(Flows.delete_topic)
    create_partitions = mirrored(Flows.create_partitions)
    topic_options = mirrored(Flows.topic_options)
    topics_options = mirrored(Flows.topics_options)
    broker_options = mirrored(Flows.broker_options)
    alter_topic = mirrored(Flows.alter_topic)
    group_options = mirrored(Flows.group_options)
    alter_group = mirrored(Flows.alter_group)
    alter_broker = mirrored(Flows.alter_broker)
    delete_records = mirrored(Flows.delete_records)
    describe_logs = mirrored(Flows.describe_logs)
    offsets = mirrored(Flows.offsets)

    cluster = mirrored(Flows.cluster)
    describe_brokers = mirrored(Flows.describe_brokers)
    connections = mirrored(Flows.connections)
    group_members = mirrored(Flows.group_members)
    events = mirrored(Flows.events)
    log_dirs = mirrored(Flows.log_dirs)
    elect_leaders = mirrored(Flows.elect_leaders)
    reassign = mirrored(Flows.reassign)
    reassignments = mirrored(Flows.reassignments)

    acls = mirrored(Flows.acls)
    create_acls = mirrored(Flows.create_acls)
    delete_acls = mirrored(Flows.delete_acls)
    denials = mirrored(Flows.denials)
    quotas = mirrored(Flows.quotas)
    alter_quota = mirrored(Flows.alter_quota)
    users = mirrored(Flows.users)
    set_password = mirrored(Flows.set_password)
    delete_user = mirrored(Flows.delete_user)

    list_transactions = mirrored(Flows.list_transactions)
    describe_transactions = mirrored(Flows.describe_transactions)
    describe_transaction = mirrored(Flows.describe_transaction)
    transaction_histories = mirrored(Flows.transaction_histories)
    waiting_readers = mirrored(Flows.waiting_readers)
    describe_producers = mirrored(Flows.describe_producers)
    abort_transaction = mirrored(Flows.abort_transaction)
    force_terminate_transaction = mirrored(Flows.force_terminate_transaction)
    transactions_report = mirrored(Flows.transactions_report)

    groups = mirrored(Flows.groups)
    describe_group = mirrored(Flows.describe_group)
    describe_groups = mirrored(Flows.describe_groups)
    group_offsets = mirrored(Flows.group_offsets)
    groups_offsets = mirrored(Flows.groups_offsets)
    alter_group_offsets = mirrored(Flows.alter_group_offsets)
    delete_group_offsets = mirrored(Flows.delete_group_offsets)
    delete_group = mirrored(Flows.delete_group)
    group_histories = mirrored(Flows.group_histories)
    times_at = mirrored(Flows.times_at)
    group_report = mirrored(Flows.group_report)
    group_summaries = mirrored(Flows.group_summaries)
