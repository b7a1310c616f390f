"""Chapters: the files of a log; keys and partitioners; one group and two."""

from pathlib import Path

from barnabas.cli.tours.members import TourMember
from barnabas.cli.tours.stage import Chapter, TourStage


def _files(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 2, configs={"segment.bytes": 2_000})
    for number in range(60):
        kafka.produce("orders", [f"order {number}".ljust(80)], partition=number % 2)
    folder = Path(kafka.log_directory()) / "orders-0"
    names = sorted(path.name for path in folder.iterdir())
    stage.tell(f"{folder.name}/ has {', '.join(names[:7])}, ...")
    logs = [name for name in names if name.endswith(".log")]
    stage.claim("a partition is a folder, TOPIC-NUMBER", folder.is_dir())
    stage.claim(f"its log is cut into {len(logs)} segments", len(logs) > 1)
    stage.claim(
        "a segment is named by its first offset",
        logs == sorted(logs) and logs[0] == f"{0:020d}.log",
    )
    stage.claim(
        "each segment has an offset index and a time index",
        all(
            (folder / f"{log[:-4]}{end}").exists()
            for log in logs
            for end in (".index", ".timeindex")
        ),
    )
    stage.command("log", "dump", str(folder))
    stage.claim("an offset is found again", kafka.records("orders", partition=0)[7].offset == 7)


def _keys(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 4)
    for number in range(40):
        kafka.produce("orders", [str(number)], key=f"customer-{number % 8}")
    homes: dict[bytes | None, set[int]] = {}
    for record in kafka.records("orders"):
        homes.setdefault(record.key, set()).add(record.partition)
    stage.command("consume", "orders", "-e", "-f", "%k -> partition %p, offset %o\\n", "-c", "6")
    stage.claim("every key has one partition", all(len(home) == 1 for home in homes.values()))
    stage.claim("the keys are spread over partitions", len(set.union(*homes.values())) > 1)
    kafka.produce("orders", ["here"], key="customer-0", partition=3)
    stage.claim(
        "a partition that is named wins over the key",
        kafka.values("orders", partition=3)[-1] == b"here",
    )


def _casting(stage: TourStage) -> None:
    kafka = stage.kafka
    kafka.create_topic("orders", 3)
    alone = TourMember(kafka, "group1", "g1-a", "orders")
    shared = [TourMember(kafka, "group2", f"g2-{n}", "orders") for n in "abc"]
    try:
        stage.eventually(
            "group2 shares the partitions: one for each member",
            lambda: (
                sorted(n for each in shared for n in each.owns) == [0, 1, 2]
                and all(len(each.owns) == 1 for each in shared)
            ),
        )
        for key in ("1", "2", "3"):
            kafka.produce("orders", [f"message {key}"], partition=int(key) - 1, key=key)
        stage.eventually("broadcast: group1's member got all 3", lambda: len(alone.read) == 3)
        stage.eventually(
            "unicast: each member of group2 got one",
            lambda: [len(each.read) for each in shared] == [1, 1, 1],
        )
        stage.command("group", "ls")
        stage.group_state("group2")
    finally:
        for each in (alone, *shared):
            each.stop()


CHAPTERS = (
    Chapter(
        "Folders, segments and indexes (分段, 索引)",
        "A topic is partitions, a partition is a folder, its log is segments with sparse indexes.",
        "barnabas/log/segments, docs/LOG.md",
        _files,
    ),
    Chapter(
        "Keys and partitioners (分区)",
        "The producer chooses the partition: by the key's hash, by name, or in turns.",
        "barnabas/client/producer/accumulator.py, docs/PRODUCER.md",
        _keys,
    ),
    Chapter(
        "One group and two: unicast and broadcast (单播, 广播)",
        "Within a group a message goes to one member; every group gets every message.",
        "barnabas/coordinators/groups, docs/GROUPS.md",
        _casting,
    ),
)
