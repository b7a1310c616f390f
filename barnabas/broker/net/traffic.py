"""What one connection has sent and received, for DescribeConnections.

Always: counting is a few additions per request; nothing outlives the connection.
"""

from barnabas.model.errors import KafkaError


class ConnectionTraffic:
    """Since the connection was opened; the dispatcher counts. `errors`: requests that were refused,
    in whole or in part, as in the metric barnabas_requests_refused.
    """

    __slots__ = ("bytes_in", "bytes_out", "errors", "last_error", "requests")

    def __init__(self) -> None:
        self.requests = self.bytes_in = self.bytes_out = self.errors = 0
        self.last_error = ""

    def refused(self, error: KafkaError) -> None:
        self.errors += 1
        self.last_error = error.code.name
