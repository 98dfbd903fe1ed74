"""AlterUserScramCredentials: each user wholly or not at all, and all of them in one batch (KIP-554). And the
sealing of all passwords by another key."""

from collections import Counter
from collections.abc import Sequence
from typing import Final

from quorate.broker.access.sealing import SETTING, SealBrokenError, Sealer, UnknownSealingKeyError
from quorate.broker.controller.operations.outcome import Outcome, decide_each
from quorate.broker.controller.rpc import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramDeletion,
    ScramUpsertion,
    SealAgainResponse,
    UserScramResult,
)
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import (
    RemoveUserScramCredential,
    ScramMechanism,
    UserScramCredential,
)
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.scram import (
    MAX_ITERATIONS,
    MIN_ITERATIONS,
    credential_from,
    digest_bytes,
)
from quorate.error_code import ErrorCode
from quorate.types import SecretBytes

_MAX_NAME_BYTES: Final = 255
_SALT_BYTES: Final = (8, 1024)


def sasl_mechanism(mechanism: ScramMechanism) -> SaslMechanism:
    """Return the mechanism by its name on the wire."""
    return SaslMechanism[mechanism.name]


def alter_user_scram_credentials(
    image: MetadataImage, request: AlterUserScramCredentialsRequest, *, sealer: Sealer | None = None
) -> Outcome[AlterUserScramCredentialsResponse]:
    """Set and remove passwords. The request has the salted password, from which both keys are made here.
    `sealer`: seals them; None: they are kept as they are."""
    items: tuple[ScramDeletion | ScramUpsertion, ...] = (*request.deletions, *request.upsertions)
    named = Counter(each.name for each in items)
    results, groups = decide_each(
        {each.name: each for each in items}.values(),
        lambda item: (_record(image, item, sealer, times=named[item.name]),),
        lambda item, error, message: UserScramResult(user=item.name, error=error, error_message=message),
    )
    records = tuple(record for group in groups for record in group)
    return Outcome(
        response=AlterUserScramCredentialsResponse(results=results), groups=(records,) if records else ()
    )


def _record(
    image: MetadataImage, item: ScramDeletion | ScramUpsertion, sealer: Sealer | None, *, times: int
) -> UserScramCredential | RemoveUserScramCredential:
    if times > 1:
        raise ApiError(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    check_user_name(item.name)
    if item.mechanism not in tuple(ScramMechanism):
        raise ApiError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(item.mechanism)
    if isinstance(item, ScramDeletion):
        if image.scram_credential(item.name, mechanism) is None:
            raise ApiError(
                ErrorCode.RESOURCE_NOT_FOUND,
                "Attempt to delete a user credential that does not exist",
            )
        return RemoveUserScramCredential(name=item.name, mechanism=mechanism)
    made = upserted(item, mechanism)
    if sealer is not None:
        return sealer.seal(made)
    if any(each.sealed_by for each in image.scram_credentials()):
        # One controller that lacks the setting must not write keys that can be read.
        raise _unacceptable(
            f"The users of this cluster are sealed, and the active controller has no key; set {SETTING} there"
        )
    return made


def seal_again(
    image: MetadataImage, users: Sequence[tuple[str, ScramMechanism]], sealer: Sealer
) -> Outcome[SealAgainResponse]:
    """Seal the passwords of `users` by the first key that are not, each by itself."""
    groups: list[tuple[UserScramCredential]] = []
    kept = unopened = 0
    missing = ""
    for user, mechanism in users:
        held = image.scram_credential(user, mechanism)
        if held is None:
            continue  # removed meanwhile
        if held.sealed_by == sealer.key_id:
            kept += 1
            continue
        try:
            groups.append((sealer.seal(sealer.open(held)),))
        except (UnknownSealingKeyError, SealBrokenError):
            unopened += 1
            missing = missing or held.sealed_by
    answer = SealAgainResponse(sealed=len(groups), kept=kept, unopened=unopened, missing_key=missing)
    return Outcome(response=answer, groups=tuple(groups))


def upserted(item: ScramUpsertion, mechanism: ScramMechanism) -> UserScramCredential:
    """Return the record of a password. Raises `ApiError`."""
    if item.iterations < MIN_ITERATIONS:
        raise _unacceptable("Too few iterations")
    if item.iterations > MAX_ITERATIONS:
        raise _unacceptable("Too many iterations")
    least, most = _SALT_BYTES
    if not least <= len(item.salt) <= most:
        raise _unacceptable(f"The salt has {len(item.salt)} bytes; it must have {least} to {most}")
    of = sasl_mechanism(mechanism)
    if len(item.salted_password) != digest_bytes(of):
        raise _unacceptable(
            f"The salted password has {len(item.salted_password)} bytes; for {of.value} it has "
            f"{digest_bytes(of)}"
        )
    made = credential_from(of, salted=item.salted_password, salt=item.salt, iterations=item.iterations)
    return UserScramCredential(
        name=item.name,
        mechanism=mechanism,
        salt=item.salt,
        stored_key=SecretBytes(made.stored_key),
        server_key=SecretBytes(made.server_key),
        iterations=item.iterations,
    )


def check_user_name(name: str) -> None:
    """Refuse a name that no user may have. Raises `ApiError`."""
    if not name:
        raise _unacceptable("Username must not be empty")
    if len(name.encode(errors="replace")) > _MAX_NAME_BYTES:
        raise _unacceptable(f"The user name has more than {_MAX_NAME_BYTES} bytes")
    if not name.isprintable():
        raise _unacceptable("The user name has characters that can't be printed")


def _unacceptable(message: str) -> ApiError:
    return ApiError(ErrorCode.UNACCEPTABLE_CREDENTIAL, message)
