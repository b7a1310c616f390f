"""Which broker and cluster own a log directory, by its meta.properties.

Always: a directory of another broker or cluster is refused; a new one is marked at once.
"""

from barnabas.log.directory.checkpoints import (
    META_PROPERTIES,
    RECOVERY_POINT,
    CorruptCheckpoint,
    MetaProperties,
    decode_meta,
    encode_meta,
    encode_offsets,
)
from barnabas.model.errors import Code, Failed
from barnabas.model.ports import Disk


def read_meta(disk: Disk, path: str) -> MetaProperties | None:
    """The owner of the directory `path`; None if it has none yet."""
    try:
        data = disk.read_file(f"{path}/{META_PROPERTIES}")
    except FileNotFoundError:
        return None
    try:
        return decode_meta(data)
    except CorruptCheckpoint as error:
        raise Failed(
            Code.KAFKA_STORAGE_ERROR, f"{path}/{META_PROPERTIES}: {error}; restore or remove it"
        ) from None


def claim(disk: Disk, path: str, meta: MetaProperties) -> MetaProperties:
    """The directory's own meta.properties, which must be the broker's; written if new."""
    found = read_meta(disk, path)
    if found is None:
        # Before it is ours: where this file is there, a log that it does not name is new.
        if not disk.exists(f"{path}/{RECOVERY_POINT}"):
            disk.replace_file(f"{path}/{RECOVERY_POINT}", encode_offsets([]))
        disk.replace_file(f"{path}/{META_PROPERTIES}", encode_meta(meta))
        disk.sync_directory(path.rpartition("/")[0] or "/")
        return meta
    if found.cluster_id != meta.cluster_id or found.node_id != meta.node_id:
        raise Failed(
            Code.INCONSISTENT_CLUSTER_ID,
            f"{path} belongs to node {found.node_id} of cluster {found.cluster_id!r}, this is "
            f"node {meta.node_id} of {meta.cluster_id!r}; use another directory",
        )
    return found
