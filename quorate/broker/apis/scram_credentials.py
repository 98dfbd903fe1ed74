"""Passwords of users: AlterUserScramCredentials and SealAgain, passed on to the controller, and
DescribeUserScramCredentials, from this broker's metadata (KIP-554)."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from kio.schema.errors import ErrorCode

from quorate.broker.access.needs import whole
from quorate.broker.apis import answers
from quorate.broker.apis.api_row import ApiRow, refuse_by_code, refuse_with_message
from quorate.broker.apis.context import Broker, answer_later, check_answer, encoded_in_slices, respond
from quorate.broker.controller.permits import NEEDS, DeniedError, check_seals_again, check_super_users
from quorate.broker.controller.rpc import (
    MAX_SCRAM_ALTERATIONS,
    AlterUserScramCredentialsRequest,
    ScramDeletion,
    ScramUpsertion,
)
from quorate.broker.controller.rpc import SealAgainRequest as SealAgain
from quorate.broker.metadata.acls import AclOperation
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.connection_quotas import is_loopback
from quorate.broker.wire.exchanges import Refusal, RequestContext, Response
from quorate.broker.wire.own_messages import SealAgainRequest
from quorate.broker.wire.wire_errors import KafkaError, wire_code
from quorate.runtime import Slices
from quorate.types import SecretBytes

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.request import (
        AlterUserScramCredentialsRequest as WireAlterScram,
    )
    from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest

_TIMEOUT_SECONDS: Final = 30
"""The request names none."""
_MAX_SECRET_BYTES: Final = 4096
"""Of a salt or a salted password on its way to the controller, which takes less."""


@answer_later
async def handle_alter_user_scram_credentials(
    broker: Broker, context: RequestContext, request: "WireAlterScram"
) -> Response:
    """Set and remove passwords. Raises `KafkaError` for a request that is too large for the controller."""
    many = len(request.deletions) + len(request.upsertions)
    if many > MAX_SCRAM_ALTERATIONS:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"The request has {many} credentials; at most {MAX_SCRAM_ALTERATIONS} are taken.",
        )
    if any(max(len(each.salt), len(each.salted_password)) > _MAX_SECRET_BYTES for each in request.upsertions):
        raise KafkaError(
            ErrorCode.unacceptable_credential,
            f"A salt or a salted password has more than {_MAX_SECRET_BYTES} bytes.",
        )
    if request.upsertions:
        _check_encrypted(broker, context)
    named = (each.name for part in (request.deletions, request.upsertions) for each in part)
    try:
        check_super_users(broker.authorizer, context.connection.principal, named)
    except DeniedError as error:
        raise KafkaError(wire_code(error.code), str(error)) from None
    asked = AlterUserScramCredentialsRequest(
        deletions=tuple(
            ScramDeletion(name=each.name, mechanism=each.mechanism) for each in request.deletions
        ),
        upsertions=tuple(
            ScramUpsertion(
                name=each.name,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=SecretBytes(each.salt),
                salted_password=SecretBytes(each.salted_password),
            )
            for each in request.upsertions
        ),
    )
    answer = await broker.ask_controller(context, asked, timeout_seconds=_TIMEOUT_SECONDS)
    check_answer(answer)
    return await encoded_in_slices(
        context,
        answers.AlterUserScramCredentialsResponse(
            results=(
                {"user": each.user, "error_code": wire_code(each.error), "error_message": each.error_message}
                for each in answer.results
            )
        ),
    )


def _check_encrypted(broker: Broker, context: RequestContext) -> None:
    """Refuse salted passwords that others could read on their way. Raises `KafkaError`."""
    config, listener = broker.config, context.connection.listener
    security = config.listener_security.get(listener)
    if (security is not None and security.protocol.encrypted) or config.credentials.over_plaintext:
        return
    if not is_loopback(context.connection.peer):
        raise KafkaError(
            ErrorCode.policy_violation,
            f"Listener {listener} is not encrypted, so others could read the password on its way; use a "
            "listener with SSL or SASL_SSL, or set scram.over.plaintext.enable=true on the brokers.",
        )


@answer_later
async def handle_describe_user_scram_credentials(
    broker: Broker, context: RequestContext, request: "DescribeUserScramCredentialsRequest"
) -> Response:
    """Describe the passwords of the named users, or of all: their mechanisms and iterations, nothing else."""
    asked: Counter[str] = Counter()
    slices = Slices()
    for each in request.users or ():
        asked[each.name] += 1
        await slices.pause()
    if not asked:
        asked.update(broker.image.scram_users())
    return await encoded_in_slices(
        context,
        answers.DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.none, results=_described(broker.image, asked)
        ),
    )


@answer_later
async def handle_seal_again(broker: Broker, context: RequestContext, request: SealAgainRequest) -> Response:
    """Answer when the active controller has sealed all credentials by its first key. Raises `KafkaError`."""
    try:
        check_seals_again(broker.authorizer, context.connection.principal)
    except DeniedError as error:
        raise KafkaError(wire_code(error.code), str(error)) from None
    answer = await broker.ask_controller(context, SealAgain(), timeout_seconds=_TIMEOUT_SECONDS)
    check_answer(answer)
    return respond(
        context,
        answers.SealAgainResponse(
            error_code=ErrorCode.none,
            sealed=answer.sealed,
            kept=answer.kept,
            unopened=answer.unopened,
            missing_key=answer.missing_key or None,
        ),
    )


def _described(
    image: MetadataImage, asked: Counter[str]
) -> Iterator[answers.DescribeUserScramCredentialsResult]:
    for user, times in asked.items():
        held = image.scram_credentials_of(user)
        if times > 1:
            error = ErrorCode.duplicate_resource
            message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        elif not held:
            error = ErrorCode.resource_not_found
            message = f"Attempt to describe a user credential that does not exist: {user}"
        else:
            yield {
                "user": user,
                "credential_infos": [
                    {"mechanism": int(each.mechanism), "iterations": each.iterations} for each in held
                ],
            }
            continue
        yield {"user": user, "error_code": error, "error_message": message}


def _refuse_alteration(
    request: "WireAlterScram", refusal: Refusal
) -> answers.AlterUserScramCredentialsResponse:
    users = dict.fromkeys(each.name for part in (request.deletions, request.upsertions) for each in part)
    return {
        "results": (
            {"user": user, "error_code": refusal.code, "error_message": refusal.message} for user in users
        )
    }


ROWS: Final = (
    ApiRow["DescribeUserScramCredentialsRequest"](
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS.api,
        refuse_by_code,
        needs=(whole(AclOperation.DESCRIBE),),
        brokers=handle_describe_user_scram_credentials,
    ),
    ApiRow["WireAlterScram"](
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS.api,
        _refuse_alteration,
        needs=NEEDS[AlterUserScramCredentialsRequest],
        brokers=handle_alter_user_scram_credentials,
    ),
    ApiRow[SealAgainRequest](
        ApiKey.SEAL_AGAIN.api,
        refuse_with_message,
        needs=NEEDS[SealAgain],
        brokers=handle_seal_again,
    ),
)
