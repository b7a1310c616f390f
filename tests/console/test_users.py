"""Users of the cluster log in to the console, and see what they may see."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.config.kinds import Address
from barnabas.console.application import ConsoleOptions
from barnabas.console.serving import application, console_access
from tests.compat.sasl_brokers import ODD_USER, PASSWORD, USER, SaslProcess, sasl_brokers
from tests.console.asgi import ask

OPTIONS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:broker;User:{USER}",
}


@pytest.fixture(scope="module")
def guarded_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslProcess]:
    directory: Path = tmp_path_factory.mktemp("users")
    with sasl_brokers(directory, options=OPTIONS) as running:
        yield running


async def test_everyone_has_the_rights_of_their_own_user(guarded_broker: SaslProcess) -> None:
    servers = guarded_broker.bootstrap_servers
    settings = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
    }
    options = ConsoleOptions(servers=servers, settings=settings, by_user=True)
    app = application(options, console_access(Address("127.0.0.1", 8080), None))
    guarded = app.guarded()

    async def log_in(user: str, password: str) -> dict[str, str]:
        answer = await ask(guarded, "/login", form={"user": user, "password": password})
        assert answer.status == 303
        return {"cookie": answer.headers["set-cookie"].partition(";")[0]}

    try:
        assert (await ask(guarded, "/topics")).status == 401
        wrong = await ask(guarded, "/login", form={"user": USER, "password": "wrong"})
        assert wrong.status == 403
        assert "set-cookie" not in wrong.headers
        all_rights, no_rights = await log_in(USER, PASSWORD), await log_in(ODD_USER, PASSWORD)
        assert app.sessions is not None
        for session in list(app.sessions._sessions.values()):
            if session.user == USER:
                await session.state.admin.create_topic("secret", partitions=1)
                await session.state._read_names()  # else within half a minute
        seen = (await ask(guarded, "/topics.json", headers=all_rights)).json()
        assert [row["topic"] for row in seen] == ["secret"]
        assert (await ask(guarded, "/topics.json", headers=no_rights)).json() == []
        assert (await ask(guarded, "/topics/secret", headers=no_rights)).status == 404
        page = (await ask(guarded, "/topics", headers=all_rights)).text
        assert f"Log out {USER}" in page
        assert PASSWORD not in page
        assert (await ask(guarded, "/logout", form={}, headers=all_rights)).status == 200
        assert (await ask(guarded, "/topics", headers=all_rights)).status == 401
    finally:
        await app.close()
