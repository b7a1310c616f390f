"""Blocks of producer ids, from the keeper: no id is ever handed out twice, by any broker."""

from barnabas.keeper import paths
from barnabas.keeper.keeper import BadVersion, Keeper, ensure
from barnabas.model.errors import Code, Failed

BLOCK_SIZE = 1000
ID_MAX = (1 << 63) - 1


def next_block(keeper: Keeper, broker: int) -> range:
    """Blocks: do not call it on an event loop. If two brokers compete, the loser takes the next."""
    path = paths.PRODUCER_ID_BLOCK
    if not keeper.exists(path):
        ensure(keeper, path)
    while True:
        node = keeper.get(path)
        last = paths.read_producer_id_block(path, node.data)[1] if node.data else -1
        block = range(last + 1, min(last + BLOCK_SIZE, ID_MAX) + 1)
        if not block:
            raise Failed(Code.UNKNOWN_SERVER_ERROR, "all producer ids have been handed out")
        try:
            keeper.set(
                path, paths.producer_id_block_data(broker, block[0], block[-1]), node.version
            )
        except BadVersion:
            continue
        return block
