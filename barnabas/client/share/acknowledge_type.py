"""How a message of a share group is acknowledged."""

from enum import IntEnum


class AcknowledgeType(IntEnum):
    """The numbers are the protocol's."""

    ACCEPT = 1
    """It was processed: it is not delivered again."""
    RELEASE = 2
    """It was not processed: it is delivered again, until the group's limit of deliveries."""
    REJECT = 3
    """It cannot be processed: it is not delivered again."""
    RENEW = 4
    """It is still being processed: its lock begins again. Requires ShareAcknowledge version 2."""
