"""Users and their passwords (KIP-554). The password is salted here: it is never sent."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from quorate.broker.admin.admin_client import AdminClient, check
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.own_messages import SealAgainRequest, SealAgainResponse
from quorate.broker.wire.sasl.scram import SALT_BYTES, salted_password
from quorate.runtime import Entropy

if TYPE_CHECKING:
    from kio.schema.alter_user_scram_credentials.v0.response import AlterUserScramCredentialsResponse
    from kio.schema.describe_user_scram_credentials.v0.response import DescribeUserScramCredentialsResponse

MIN_PASSWORD: Final = 8
"""The least number of characters. The cluster can't check it: it never sees a password."""
SCRAM_NAMES: Final = {SaslMechanism[each.name].value: each for each in ScramMechanism}
"""The mechanisms by their names."""


@dataclass(frozen=True, slots=True)
class UserPassword:
    """A password that a user has, without anything that is made of it."""

    user: str
    mechanism: str
    iterations: int

    def as_dict(self) -> dict[str, object]:
        """Return it for programs."""
        return {"user": self.user, "mechanism": self.mechanism, "iterations": self.iterations}


async def list_users(admin: AdminClient, names: Sequence[str] = ()) -> list[UserPassword]:
    """Return the passwords of the named users, or of all. Raises `KafkaError` for a user that has none."""
    answer = cast(
        "DescribeUserScramCredentialsResponse",
        await admin.call(
            ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, users=[{"name": each} for each in names] or None
        ),
    )
    check(answer.error_code, answer.error_message)
    for result in answer.results:
        check(result.error_code, result.error_message)
    return [
        UserPassword(
            result.user, SaslMechanism[ScramMechanism(info.mechanism).name].value, int(info.iterations)
        )
        for result in sorted(answer.results, key=lambda each: each.user)
        for info in result.credential_infos
    ]


async def set_password(
    admin: AdminClient, user: str, password: str, *, mechanism: str, iterations: int, entropy: Entropy
) -> None:
    """Set the password of a user for one mechanism of `SCRAM_NAMES`."""
    salt = entropy.below(1 << 8 * SALT_BYTES).to_bytes(SALT_BYTES, "big")
    salted = salted_password(
        SaslMechanism(mechanism), password=password.encode(), salt=salt, iterations=iterations
    )
    await _alter(
        admin,
        user,
        upsertions=[
            {
                "name": user,
                "mechanism": int(SCRAM_NAMES[mechanism]),
                "iterations": iterations,
                "salt": salt,
                "salted_password": salted,
            }
        ],
    )


async def remove_password(admin: AdminClient, user: str, *, mechanism: str) -> None:
    """Remove the password of a user for one mechanism. Raises `KafkaError` if there is none."""
    await _alter(
        admin, user, deletions=[{"name": user, "mechanism": int(SCRAM_NAMES[mechanism])}], upsertions=[]
    )


@dataclass(frozen=True, slots=True)
class Sealed:
    """The credentials of all users, after they were to be sealed by another key."""

    sealed: int
    """Those that are sealed by it now."""
    kept: int
    """Those that were before."""
    unopened: int
    """Those that are as they were, because the controller could not open them."""
    missing_key: str | None
    """The id of a key that it would need for one of them."""

    def as_dict(self) -> dict[str, object]:
        """Return it for programs."""
        return {
            "sealed": self.sealed,
            "kept": self.kept,
            "unopened": self.unopened,
            "missingKey": self.missing_key,
        }


async def seal_again(admin: AdminClient) -> Sealed:
    """Have the credentials of all users sealed by the first key of the active controller. Raises
    `KafkaError`."""
    answer = await admin.send(SealAgainRequest(), SealAgainResponse)
    check(answer.error_code, answer.error_message)
    return Sealed(answer.sealed, answer.kept, answer.unopened, answer.missing_key)


async def _alter(
    admin: AdminClient,
    user: str,
    *,
    upsertions: Sequence[dict[str, object]],
    deletions: Sequence[dict[str, object]] = (),
) -> None:
    answer = await admin.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, deletions=deletions, upsertions=upsertions)
    (result,) = cast("AlterUserScramCredentialsResponse", answer).results
    check(result.error_code, result.error_message, of=f"user {user}")
