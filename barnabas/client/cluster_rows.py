"""A cluster in rows: its brokers, and the partitions that are offline or not in sync.

In: the metadata of the cluster. Out: rows and lines; no requests.
"""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.client.tables import Row
from barnabas.model.times import iso_time

if TYPE_CHECKING:
    from barnabas.client.admin.cluster import BrokerDetails
    from barnabas.client.metadata_snapshot import MetadataSnapshot
    from barnabas.wire.messages.describe_broker import ControllerEvent

BROKER_COLUMNS = ("broker", "address", "state", "epoch", "rack", "process", "leads", "replicas")
HEALTH_COLUMNS = (
    "loop_delay_ms_p99", "open_files", "open_files_max", "disks", "log_lines_dropped",
)  # fmt: skip
PROBLEM_COLUMNS = ("topic", "partition", "problem", "leader", "replicas", "in_sync")


def broker_rows(
    view: "MetadataSnapshot", details: Mapping[int, "BrokerDetails"], machine: str
) -> list[Row]:
    """The live brokers, and those that are down but have replicas."""
    leads: Counter[int] = Counter()
    replicas: Counter[int] = Counter()
    for topic in view.topics.values():
        for partition in topic.partitions:
            leads[partition.leader] += 1
            replicas.update(partition.replicas)
    rows = []
    for id_ in sorted({*view.brokers, *(broker for broker in replicas if broker >= 0)}):
        broker, own = view.brokers.get(id_), details.get(id_)
        local = own is not None and machine and own.machine == machine
        rows.append(
            {
                "broker": id_,
                "address": None if broker is None else str(broker.address),
                "state": _state(id_, view, details),
                "controller": id_ == view.controller_id,
                "epoch": own.epoch if own is not None and own.epoch >= 0 else None,
                "rack": None if broker is None else broker.rack,
                "process": own.process_id if own is not None and local else None,
                "version": None if own is None else own.version,
                "leads": leads[id_],
                "replicas": replicas[id_],
                **_health(own),
            }
        )
    return rows


def _health(own: "BrokerDetails | None") -> Row:
    """None if the broker reports nothing: it is down, does not answer, is older, or is not
    Barnabas.
    """
    if own is None or own.loop_delay_ms_p99 < 0:
        return dict.fromkeys((*HEALTH_COLUMNS, "log_dirs"))
    bad = [f"{each.state}: {each.path}" for each in own.log_dirs if each.state != "online"]
    return {
        "loop_delay_ms_p99": own.loop_delay_ms_p99,
        "open_files": own.open_files,
        "open_files_max": own.open_files_max,
        "disks": ", ".join(bad) or "online",
        "log_lines_dropped": own.log_lines_dropped,
        "log_dirs": [each._asdict() for each in own.log_dirs],
    }


def _state(id_: int, view: "MetadataSnapshot", details: Mapping[int, "BrokerDetails"]) -> str:
    if id_ not in view.brokers:
        return "down"
    if id_ not in details and details:  # the others are Barnabas, so it is too
        return "silent"
    return "controller" if id_ == view.controller_id else "up"


def reasons(details: Mapping[int, "BrokerDetails"]) -> dict[tuple[str, int], str]:
    """Why partitions are offline, as the controller reports it."""
    return {
        (at.topic, at.partition): why for own in details.values() for at, why in own.offline.items()
    }


def throttled_rows(details: Mapping[int, "BrokerDetails"]) -> list[Row]:
    """Clients that were over their quota in the last minute."""
    return [
        {"broker": id_, **each._asdict()}
        for id_, own in sorted(details.items())
        for each in own.throttled
    ]


def waiting_rows(details: Mapping[int, "BrokerDetails"]) -> list[Row]:
    """Logs that wait for the table of a lake."""
    return [
        {"broker": id_, **each._asdict(), "partition": str(each.partition)}
        for id_, own in sorted(details.items())
        for each in own.waiting
    ]


def problem_rows(view: "MetadataSnapshot") -> list[Row]:
    """Partitions without a leader, or with replicas that are not in sync; the worst first."""
    rows = []
    for name, topic in sorted(view.topics.items()):
        for partition in topic.partitions:
            offline = partition.leader not in view.brokers
            if offline or len(partition.in_sync) < len(partition.replicas):
                rows.append(
                    {
                        "topic": name,
                        "partition": partition.number,
                        "problem": "offline" if offline else "under-replicated",
                        "leader": partition.leader if not offline else None,
                        "replicas": partition.replicas,
                        "in_sync": partition.in_sync,
                    }
                )
    return sorted(rows, key=lambda row: row["problem"] != "offline")


def counts(view: "MetadataSnapshot") -> tuple[int, int]:
    """Topics and partitions."""
    return len(view.topics), sum(len(topic.partitions) for topic in view.topics.values())


def controller_epoch(details: Mapping[int, "BrokerDetails"]) -> int | None:
    epoch = max((own.controller_epoch for own in details.values()), default=-1)
    return epoch if epoch >= 0 else None


def health(problems: list[Row], partitions: int) -> str:
    """One line for people."""
    offline = sum(row["problem"] == "offline" for row in problems)
    behind = len(problems) - offline
    if not problems:
        return f"{counted(partitions, 'partition')}, all led and in sync"
    parts = [f"{offline} offline"] * bool(offline) + [f"{behind} under-replicated"] * bool(behind)
    return f"{counted(partitions, 'partition')}, {', '.join(parts)}"


def counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def event_row(event: "ControllerEvent") -> dict[str, object]:
    """`where` and `change` are for people, the rest for scripts."""
    where = f"{event.topic}-{event.partition}" if event.partition >= 0 else event.topic
    parts = []
    if event.leader != event.leader_before:
        parts.append(f"leader {_name(event.leader_before)} -> {_name(event.leader)}")
    if event.isr != event.isr_before:
        parts.append(f"in sync {_names(event.isr_before)} -> {_names(event.isr)}")
    return {
        "time": iso_time(event.at_ms),
        "what": event.what,
        "where": where,
        "change": ", ".join(parts) if event.partition >= 0 else "",
        "cause": event.cause,
        "number": event.number,
        "time_ms": event.at_ms,
        "topic": event.topic or None,
        "partition": event.partition if event.partition >= 0 else None,
        "leader": event.leader if event.partition >= 0 else None,
        "leader_epoch": event.leader_epoch if event.partition >= 0 else None,
        "in_sync": list(event.isr),
        "leader_before": event.leader_before if event.partition >= 0 else None,
        "in_sync_before": list(event.isr_before),
    }


def _name(broker: int) -> str:
    return str(broker) if broker >= 0 else "none"


def _names(brokers: list[int]) -> str:
    return ",".join(map(str, brokers)) or "none"
