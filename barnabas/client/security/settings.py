"""With what a client logs in, from its options.

In: options, files that they name. Out: a `SaslLogin`, or INVALID_CONFIG that names the option.
Always: no error repeats a secret.
"""

from barnabas.config.client import ClientConfig
from barnabas.config.option import invalid
from barnabas.security.sasl.client_login import SaslLogin
from barnabas.security.sasl.jaas import PLAIN_MODULE, SCRAM_MODULE, parse_jaas
from barnabas.security.sasl.mechanism import OAUTHBEARER, PLAIN

SECRET_LENGTH_MAX = 64 * 1024


def login_of(config: ClientConfig) -> SaslLogin | None:
    """None: the protocol has no login."""
    if not config.security_protocol.startswith("SASL_"):
        if config.sasl_username or config.sasl_jaas_config:
            raise invalid(
                f"sasl.username or sasl.jaas.config is set, but security.protocol is"
                f" {config.security_protocol}, which has no login: set SASL_SSL or SASL_PLAINTEXT"
            )
        return None
    mechanism = config.sasl_mechanism
    if mechanism == OAUTHBEARER:
        path = config.sasl_oauthbearer_token_file
        if not path:
            raise invalid("sasl.mechanism=OAUTHBEARER requires sasl.oauthbearer.token.file")
        return SaslLogin(mechanism, token=lambda: read_secret(path, "sasl.oauthbearer.token.file"))
    user, password, by_token = _user(config)
    if not user or not password:
        missing = "sasl.username" if not user else "sasl.password or sasl.password.file"
        raise invalid(f"sasl.mechanism={mechanism} requires {missing}")
    return SaslLogin(mechanism, user, password, by_token)


def _user(config: ClientConfig) -> tuple[str, str, bool]:
    user, password, by_token = config.sasl_username, config.sasl_password, False
    if config.sasl_jaas_config:
        if user or password:
            raise invalid("sasl.jaas.config and sasl.username exclude each other: set one of them")
        try:
            login = parse_jaas(config.sasl_jaas_config)
        except ValueError as problem:
            raise invalid(f"client option sasl.jaas.config: {problem}") from None
        module = PLAIN_MODULE if config.sasl_mechanism == PLAIN else SCRAM_MODULE
        if login.module != module:
            raise invalid(
                f"client option sasl.jaas.config: sasl.mechanism={config.sasl_mechanism} requires"
                f" {module}, not {login.module[:100]}"
            )
        user = login.options.get("username", "")
        password = login.options.get("password", "")
        by_token = login.options.get("tokenauth", "").lower() == "true"
    if config.sasl_password_file:
        if password:
            raise invalid("sasl.password and sasl.password.file exclude each other: set one")
        password = read_secret(config.sasl_password_file, "sasl.password.file")
    return user, password, by_token


def read_secret(path: str, option: str) -> str:
    """The text of a file, without the end of a line at its end."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(SECRET_LENGTH_MAX + 1)
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is not UTF-8"
        raise invalid(f"{option} = {path[:300]!r} cannot be read: {reason}") from None
    text = text.removesuffix("\n").removesuffix("\r")
    if not text or len(text) > SECRET_LENGTH_MAX:
        raise invalid(f"{option} = {path[:300]!r}: expected 1 to {SECRET_LENGTH_MAX} characters")
    return text
