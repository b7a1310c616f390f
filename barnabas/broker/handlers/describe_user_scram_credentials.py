"""DescribeUserScramCredentials: which users have passwords for SCRAM, never the passwords."""

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.broker.net.dispatch import Call
from barnabas.broker.security.credentials import described_users
from barnabas.model.errors import Code
from barnabas.wire.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.broker.context import GroupsContext


def handle(
    broker: "GroupsContext", request: DescribeUserScramCredentialsRequest, call: Call
) -> DescribeUserScramCredentialsResponse:
    known = described_users(broker.catalog.entities, broker.log)
    asked = Counter(each.name for each in request.users or ())
    results = []
    for user, times in asked.items() if asked else ((user, 1) for user in sorted(known)):
        if times > 1:
            results.append(
                _refused(user, Code.DUPLICATE_RESOURCE, "the request names the user twice")
            )
        elif user not in known:
            results.append(
                _refused(
                    user,
                    Code.RESOURCE_NOT_FOUND,
                    f"Attempt to describe a user credential that does not exist: {user[:100]}",
                )
            )
        else:
            results.append(
                DescribeUserScramCredentialsResult(
                    user=user,
                    error_code=0,
                    credential_infos=[
                        CredentialInfo(mechanism=code, iterations=iterations)
                        for code, iterations in known[user].items()
                    ],
                )
            )
    return DescribeUserScramCredentialsResponse(error_code=0, results=results)


def _refused(user: str, code: Code, reason: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user, error_code=code, error_message=reason, credential_infos=[]
    )
