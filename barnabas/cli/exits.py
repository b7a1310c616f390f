"""Exit codes, for scripts."""

from barnabas.model.errors import Code, KafkaError

OK = 0
FAILURE = 1
USAGE = 2
NOT_FOUND = 3
TIMEOUT = 4
DENIED = 5
ASSERTION = 6
INTERRUPTED = 130
PIPE_CLOSED = 141  # as if by SIGPIPE, which Python ignores

_NOT_FOUND = frozenset(
    {
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.RESOURCE_NOT_FOUND,
        Code.GROUP_ID_NOT_FOUND,
        Code.TRANSACTIONAL_ID_NOT_FOUND,
    }
)
_DENIED = frozenset(
    {
        Code.TOPIC_AUTHORIZATION_FAILED,
        Code.GROUP_AUTHORIZATION_FAILED,
        Code.CLUSTER_AUTHORIZATION_FAILED,
        Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Code.SASL_AUTHENTICATION_FAILED,
        Code.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


def exit_code_of(error: KafkaError) -> int:
    return exit_code_by(error.code)


def exit_code_by(code: Code | None) -> int:
    """The exit code for an error. `code` None: the error did not come from a broker."""
    if code in _NOT_FOUND:
        return NOT_FOUND
    if code is Code.REQUEST_TIMED_OUT:
        return TIMEOUT
    if code in _DENIED:
        return DENIED
    return FAILURE
