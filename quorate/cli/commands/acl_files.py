"""Files of ACLs, in the form of `quorate acls list --json`, and ACLs as commands."""

import enum
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeVar, cast

from quorate.broker.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    canonical_host,
    is_address,
)
from quorate.broker.wire.principals import Principal
from quorate.cli.console.cli_errors import UsageError

E = TypeVar("E", bound=enum.IntEnum)

_FIELDS: Final = (
    *("resourceType", "resourceName", "patternType"),
    *("principal", "permissionType", "operation", "host"),
)
_OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
}
_KAFKAS_OPTIONS: Final = {
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""Of resources that `quorate acls` has no option for."""


def load_acls(path: Path) -> list[Acl]:
    """Read a list of ACLs. Raises `UsageError`, which names the entry, the field and the remedy, and
    `OSError`."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{path} is no JSON: {error}") from None
    if not isinstance(entries, list):
        raise UsageError(f"{path} is no list of ACLs; quorate acls list --json writes one")
    found: dict[Acl, None] = {}
    for number, entry in enumerate(cast("list[object]", entries)):
        acl = _acl(entry, f"{path}: entry {number}")
        if acl in found:
            raise UsageError(f"{path}: entry {number} is there twice; remove one")
        found[acl] = None
    return list(found)


def _acl(entry: object, where: str) -> Acl:
    if not isinstance(entry, dict) or set(cast("dict[str, object]", entry)) != set(_FIELDS):
        raise UsageError(f"{where} needs exactly the fields {', '.join(_FIELDS)}")
    fields = cast("Mapping[str, object]", entry)
    for name, value in fields.items():
        if not isinstance(value, str) or not value:
            raise UsageError(f"{where}: {name} must be a text that is not empty")
    texts = cast("Mapping[str, str]", fields)
    try:
        Principal.parse(texts["principal"])
    except ValueError as error:
        raise UsageError(f"{where}: {error}") from None
    host = texts["host"]
    if host != "*" and not is_address(host):
        raise UsageError(f"{where}: host {host!r:.60} is neither an IP address nor *")
    kind = _member(ResourceType, texts, "resourceType", where)
    if kind is ResourceType.CLUSTER and texts["resourceName"] != CLUSTER_NAME:
        raise UsageError(f"{where}: the resourceName of a CLUSTER is {CLUSTER_NAME}")
    return Acl(
        resource_type=kind,
        name=texts["resourceName"],
        pattern=_member(PatternType, texts, "patternType", where),
        principal=texts["principal"],
        host=canonical_host(host),
        operation=_member(AclOperation, texts, "operation", where),
        permission=_member(AclPermission, texts, "permissionType", where),
    )


def _member(kind: type[E], texts: Mapping[str, str], field: str, where: str) -> E:
    try:
        return kind[texts[field]]
    except KeyError:
        names = ", ".join(each.name for each in kind)
        raise UsageError(f"{where}: {field} {texts[field]!r:.60} is none of {names}") from None


def command_of(acl: Acl, *, add: bool) -> str:
    """Return the command that adds exactly this ACL, or removes it and no other."""
    allows = "allow" if acl.permission is AclPermission.ALLOW else "deny"
    operation = acl.operation.name.lower().replace("_", "-")
    whom = [f"--{allows}-principal", acl.principal, f"--{allows}-host", acl.host]
    if add and acl.host == "*":
        whom = whom[:2]
    match acl.resource_type:
        case ResourceType.CLUSTER:
            resource = ["--cluster"]
        case kind if kind in _OPTIONS:
            resource = [_OPTIONS[kind], acl.name]
        case kind:
            resource = [_KAFKAS_OPTIONS[kind], acl.name]
    if acl.pattern is PatternType.PREFIXED:
        resource += ["--resource-pattern-type", "prefixed"]
    if acl.resource_type in _KAFKAS_OPTIONS:
        begin = ["kafka-acls", "--add" if add else "--remove"]
        operation = "".join(word.capitalize() for word in acl.operation.name.split("_"))
    else:
        begin = ["quorate", "acls", "add" if add else "remove"]
    return shlex.join([*begin, *whom, "--operation", operation, *resource])
