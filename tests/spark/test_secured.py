"""Spark reads and writes over SASL_SSL, as a user who may do so and as one who may not."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import barnabas.sync
from barnabas.client.admin.security import Acl
from barnabas.client.blocking import open_cluster
from barnabas.model.ids import TopicPartition
from barnabas.pipeline.spark.segments import local_files
from tests.compat.sasl_brokers import PASSWORD, USER, SaslProcess, sasl_brokers
from tests.support.certificates import Pki, new_pki
from tests.waiting import WAIT_S

pytestmark = pytest.mark.usefixtures("both_formats")
FORMATS = ("barnabas", "kafka")
SPARK_USER, SPARK_PASSWORD = "spark", "canary-of-spark"
LOOKER, LOOKER_PASSWORD = "looker", "canary-of-looker"
OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
    "num.partitions": "3",
}
ALLOWED = "allowed-"  # the topics that Spark may use begin with it


@dataclass(frozen=True)
class SecuredCluster:
    broker: SaslProcess
    pki: Pki

    def ours(self, user: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.broker.bootstrap_servers,
            "security.protocol": "SASL_SSL",
            "ssl.truststore.location": self.pki.path("ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": password,
        }

    def spark(self, user: str = SPARK_USER, password: str = SPARK_PASSWORD) -> dict[str, str]:
        """As Spark's own connector takes them; ours takes the same."""
        return {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": self.pki.path("ca.pem"),
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule"
            f' required username="{user}" password="{password}";',
        }


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    directory = tmp_path_factory.mktemp("secured")
    pki = new_pki(directory / "pki")
    with sasl_brokers(directory, 1, {**pki.broker(), **OPTIONS}, "SASL_SSL") as broker:
        made = SecuredCluster(broker, pki)
        with barnabas.sync.Admin(made.ours(USER, PASSWORD)) as admin:
            admin.set_password(SPARK_USER, SPARK_PASSWORD)
            admin.set_password(LOOKER, LOOKER_PASSWORD)
            who = f"User:{SPARK_USER}"
            admin.create_acls(
                [
                    *(
                        Acl("topic", ALLOWED, who, each, pattern="prefixed")
                        for each in ("read", "write", "describe", "create")
                    ),
                    # Spark's connector and ours make up the names of their groups.
                    *(Acl("group", "*", who, each) for each in ("read", "describe")),
                    Acl("topic", "*", f"User:{LOOKER}", "describe"),
                    Acl("group", "*", f"User:{LOOKER}", "read"),
                    Acl("cluster", "kafka-cluster", f"User:{LOOKER}", "describe"),
                    Acl("cluster", "kafka-cluster", who, "describe"),
                ]
            )
            admin.create_topic("forbidden", partitions=1)
            with barnabas.sync.Producer(made.ours(USER, PASSWORD)) as producer:
                for number in range(3_000):
                    producer.send("forbidden", b"canary-record %d" % number, partition=0)
        yield made
        broker.check_log()
        assert "canary" not in broker.log


def values(frame: Any) -> set[int]:
    return {int(row.value) for row in frame.select("value").collect()}


@pytest.mark.parametrize("written_by", FORMATS)
def test_what_one_format_writes_both_read(
    spark: Any, cluster: SecuredCluster, written_by: str
) -> None:
    topic = f"{ALLOWED}batch-{written_by}"
    rows = spark.range(100).selectExpr("cast(id as string) as value")
    rows.write.mode("append").format(written_by).options(**cluster.spark(), topic=topic).save()
    for read_by in FORMATS:
        source = spark.read.format(read_by).options(**cluster.spark(), subscribe=topic)
        assert values(source.load()) == set(range(100)), read_by


@pytest.mark.parametrize("name", FORMATS)
def test_a_stream_reads_and_writes(
    spark: Any, cluster: SecuredCluster, name: str, tmp_path: Path
) -> None:
    source, target = f"{ALLOWED}from-{name}", f"{ALLOWED}to-{name}"
    rows = spark.range(50).selectExpr("cast(id as string) as value")
    rows.write.mode("append").format(name).options(**cluster.spark(), topic=source).save()
    query = (
        spark.readStream.format(name)
        .options(**cluster.spark(), subscribe=source, startingOffsets="earliest")
        .load()
        .selectExpr("value")
        .writeStream.format(name)
        .options(**cluster.spark(), topic=target, checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(WAIT_S * 2)
    assert query.exception() is None
    written = spark.read.format("kafka").options(**cluster.spark(), subscribe=target).load()
    assert values(written) == set(range(50))
    for file in (tmp_path / "checkpoint").rglob("*"):
        assert not file.is_file() or b"canary" not in file.read_bytes(), file


@pytest.mark.parametrize("name", FORMATS)
def test_a_topic_that_the_rules_forbid_is_not_read(
    spark: Any, cluster: SecuredCluster, name: str
) -> None:
    options = {**cluster.spark(), "subscribe": "forbidden"}
    with pytest.raises(Exception, match=r"(?i)not authorized|authorization") as refused:
        spark.read.format(name).options(**options).load().collect()
    assert "canary" not in str(refused.value)


def test_the_right_to_describe_a_topic_opens_no_segment_file(cluster: SecuredCluster) -> None:
    at = TopicPartition("forbidden", 0)

    def files_for(user: str, password: str) -> object:
        with open_cluster(cluster.ours(user, password), {}) as client:
            return local_files(client, at, 0)

    assert files_for(USER, PASSWORD) is not None
    assert files_for(LOOKER, LOOKER_PASSWORD) is None
