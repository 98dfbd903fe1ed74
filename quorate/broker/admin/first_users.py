"""The users that a new cluster begins with, by Kafka's `storage format --add-scram` (KIP-900)."""

import base64
from collections.abc import Mapping
from typing import Final

from quorate.broker.admin.users import MIN_PASSWORD, SCRAM_NAMES
from quorate.broker.controller.operations.scram_credentials import check_user_name, upserted
from quorate.broker.controller.rpc import ScramUpsertion
from quorate.broker.metadata.api_error import ApiError
from quorate.broker.metadata.metadata_records import UserScramCredential
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.sasl.scram import MIN_ITERATIONS, SALT_BYTES, salted_password
from quorate.runtime import Entropy
from quorate.types import SecretBytes

_FORM: Final = "write SCRAM-SHA-512=[name=alice,password=...]"
_FIELDS: Final = ("name", "password", "salt", "saltedpassword", "iterations")


class FirstUserError(ValueError):
    """The argument is wrong. The text names the remedy, and has nothing of the value in it."""


def first_user(argument: str, entropy: Entropy) -> UserScramCredential:
    """Return the credential that an argument describes, unsealed. Raises `FirstUserError`.

    In the brackets are `name` and one of `password` and `saltedpassword` (base64, with `salt`), and if wanted
    `salt` (base64) and `iterations`. Quotes around a value are removed. A value can't have a comma in it."""
    mechanism, fields = _parsed(argument)
    name = fields.get("name")
    if not name:
        raise FirstUserError(f"it has no name; {_FORM}")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise FirstUserError(f"it needs either password or saltedpassword; {_FORM}")
    iterations = _whole(fields.get("iterations", str(MIN_ITERATIONS)))
    if "salt" in fields:
        salt = _base64(fields, "salt")
    elif "saltedpassword" in fields:
        raise FirstUserError("it has saltedpassword and no salt; add the salt that it was made with")
    else:
        salt = entropy.below(1 << 8 * SALT_BYTES).to_bytes(SALT_BYTES, "big")
    if "saltedpassword" in fields:
        salted = _base64(fields, "saltedpassword")
    else:
        if len(fields["password"]) < MIN_PASSWORD:
            raise FirstUserError(f"its password needs at least {MIN_PASSWORD} characters")
        # Bounded before it is derived: `upserted` says more.
        rounds = min(max(iterations, 1), 1 << 20)
        password = fields["password"].encode()
        salted = salted_password(mechanism, password=password, salt=salt, iterations=rounds)
    try:
        check_user_name(name)
        item = ScramUpsertion(
            name=name,
            mechanism=SCRAM_NAMES[mechanism.value],
            iterations=iterations,
            salt=SecretBytes(salt),
            salted_password=SecretBytes(salted),
        )
        return upserted(item, SCRAM_NAMES[mechanism.value])
    except ApiError as error:
        raise FirstUserError(f"{error.message}; {_FORM}") from None


def _parsed(argument: str) -> tuple[SaslMechanism, Mapping[str, str]]:
    named, separator, rest = argument.strip().partition("=")
    if named not in SCRAM_NAMES or not separator:
        # Not shown: it may be the password, in the wrong place.
        raise FirstUserError(f"it does not begin with {' or '.join(f'{each}=' for each in SCRAM_NAMES)}")
    if not rest.startswith("[") or not rest.endswith("]"):
        raise FirstUserError(f"what follows {named}= is not in brackets; {_FORM}")
    fields: dict[str, str] = {}
    for item in rest[1:-1].split(","):
        key, separator, value = item.partition("=")
        key = key.strip()
        if key not in _FIELDS or not separator:
            raise FirstUserError(
                f"an item in the brackets is not one of {', '.join(_FIELDS)} with a value; a password with a "
                "comma in it is set by `quorate users set`"
            )
        if key in fields:
            raise FirstUserError(f"it has {key} twice")
        fields[key] = value.strip().removeprefix('"').removesuffix('"')
    return SaslMechanism(named), fields


def _base64(fields: Mapping[str, str], key: str) -> bytes:
    try:
        return base64.b64decode(fields[key], validate=True)
    except ValueError:
        raise FirstUserError(f"its {key} is no base64") from None


def _whole(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise FirstUserError("its iterations is no whole number")
    return int(text)
