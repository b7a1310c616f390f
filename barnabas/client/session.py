"""One connection's side of the protocol, without the connection.

In: requests to send, bytes received. Out: bytes to send, responses.
Always: a request goes out in the highest version both sides speak.
Not here: frames (wire/session.py), sockets and time (aio/, blocking/), which broker to ask
(cluster.py).
"""

from barnabas.model.errors import Code, InvalidRequest
from barnabas.model.ports import Buffer, FileSlice
from barnabas.wire.apis import APIS
from barnabas.wire.codec import ProtocolMessage
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.session import RESPONSE_SIZE_MAX, Exchange

_GREETING_VERSION = 3


class ProtocolSession(Exchange):
    """An exchange with a broker that says which versions it speaks."""

    def __init__(
        self, client_id: str, software: tuple[str, str], response_size_max: int = RESPONSE_SIZE_MAX
    ) -> None:
        super().__init__(client_id, response_size_max)
        self._software = software
        self._versions: dict[int, tuple[int, int]] = {}
        self._features: dict[str, int] = {}

    def greeting(self) -> list[Buffer | FileSlice]:
        """The first request: which versions does the broker speak?"""
        name, version = self._software
        return self.frame(
            ApiVersionsRequest(client_software_name=name, client_software_version=version),
            _GREETING_VERSION,
        )

    def greeted(self, response: ProtocolMessage) -> list[Buffer | FileSlice] | None:
        """Learn from the answer to the greeting; None, or the greeting an older broker needs."""
        assert isinstance(response, ApiVersionsResponse)
        if response.error_code == Code.UNSUPPORTED_VERSION:
            return self.frame(ApiVersionsRequest(), 0)
        if response.error_code:
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION, f"ApiVersions was answered with {response.error_code}"
            )
        self._versions = {a.api_key: (a.min_version, a.max_version) for a in response.api_keys}
        self._features = {f.name: f.max_version_level for f in response.finalized_features}
        return None

    @property
    def versions_known(self) -> bool:
        """Whether the broker has said which versions it speaks."""
        return bool(self._versions)

    def version_of(self, api_key: int, version_max: int | None = None) -> int:
        """The highest version of an API that both sides speak."""
        api = APIS[api_key]
        lowest, highest = self._versions.get(api_key, (0, -1))
        ours = api.max_version if version_max is None else min(version_max, api.max_version)
        version = min(ours, highest)
        if version < max(lowest, api.min_version):
            offered = f"offers {lowest} to {highest}" if highest >= 0 else "does not offer it"
            raise InvalidRequest(
                Code.UNSUPPORTED_VERSION,
                f"{api.name} needs version {api.min_version} to {ours}, the broker {offered}",
            )
        return version

    def feature(self, name: str) -> int:
        """The level of a feature that the cluster has finalized; 0: not finalized."""
        return self._features.get(name, 0)

    def request(
        self, message: ProtocolMessage, *, version_max: int | None = None, answered: bool = True
    ) -> list[Buffer | FileSlice]:
        """The bytes of a request; `answered=False` for the one kind that gets no answer."""
        version = self.version_of(message.api_key, version_max)
        return self.frame(message, version, answered)
