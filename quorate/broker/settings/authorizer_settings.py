"""The settings of the decision about requests (KIP-801)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.broker.settings.config_key import ValueType, flag_key, key_of
from quorate.broker.settings.setting import setting

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def _authorizer(value: str) -> None:
    if value not in ("", STANDARD):
        raise ValueError(f"there is {STANDARD}; code of others can't be loaded")


def split_users(value: str) -> Sequence[str]:
    """Split at semicolons, because names may have commas. Raises `ValueError`."""
    users = tuple(item.strip() for item in value.split(";") if item.strip())
    for each in users:
        kind, separator, name = each.partition(":")
        if not kind or not separator or not name:
            raise ValueError(f"{each!r:.60} is no principal; write Type:name, such as User:admin")
        if kind != "User":
            raise ValueError(f"{each!r:.60} is no user; nodes may do what their certificate says")
    return users


# fmt: off
@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerSettings:
    """Who decides about requests, and who may do everything."""

    class_name: str = setting(key_of(ValueType.CLASS, "authorizer.class.name", "",
        "The class that authorizes requests, by its name in Kafka. Empty: everybody who reaches a listener "
        f"may do everything. {STANDARD}: the ACLs decide.", str, check=_authorizer))
    super_users: Sequence[str] = setting(key_of(ValueType.STRING, "super.users", "",
        "The users that may do everything, separated by semicolons: User:admin;User:ops.", split_users,
        check=split_users))
    allow_everyone: bool = setting(flag_key("allow.everyone.if.no.acl.found", False,
        "true: everybody may do everything with a resource that no ACL names."))
# fmt: on
