"""`quorate acls`: who may, or may not, do what with which resources."""

import enum
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quorate.cli.commands.options import BootstrapOption, BrokersOption, JsonOption
from quorate.cli.console.cli_errors import ExitCode, fail, user_errors, wrong_usage
from quorate.cli.console.connections import DEFAULT_BOOTSTRAP, ask
from quorate.cli.console.output import print_json, print_rows

if TYPE_CHECKING:
    from quorate.broker.admin.admin_client import AdminClient
    from quorate.broker.metadata.acl_index import AclIndex
    from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, ResourceType
    from quorate.broker.wire.principals import Principal
    from quorate.cli.images.acl_history import Since
    from quorate.cli.images.image_tree import Json

app = typer.Typer(
    no_args_is_help=True,
    help="ACLs: who may, or may not, do what with which topics, groups and other resources.",
    epilog="Example: quorate acls add --allow-principal User:ann --operation read --topic orders",
)

TopicOption = Annotated[
    list[str] | None, typer.Option("--topic", metavar="NAME", help="A topic; * for every one. Repeatable.")
]
GroupOption = Annotated[
    list[str] | None, typer.Option("--group", metavar="NAME", help="A group; * for every one. Repeatable.")
]
TransactionalIdOption = Annotated[
    list[str] | None,
    typer.Option("--transactional-id", metavar="ID", help="A transactional id. Repeatable."),
]
ClusterOption = Annotated[bool, typer.Option("--cluster", help="The cluster itself.")]
AllowOption = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-principal",
        metavar="TYPE:NAME",
        help="Who may, such as User:ann; User:* for everybody. Repeatable.",
    ),
]
DenyOption = Annotated[
    list[str] | None,
    typer.Option(
        "--deny-principal",
        metavar="TYPE:NAME",
        help="Who may not, even if another ACL allows it. Repeatable.",
    ),
]
AllowHostOption = Annotated[
    list[str] | None,
    typer.Option("--allow-host", metavar="ADDRESS", help="From where they may. Default: any. Repeatable."),
]
DenyHostOption = Annotated[
    list[str] | None,
    typer.Option("--deny-host", metavar="ADDRESS", help="From where they may not. Default: any. Repeatable."),
]
OperationOption = Annotated[
    list[str] | None,
    typer.Option(
        "--operation", metavar="OPERATION", help="read, write, describe and so on, or all. Repeatable."
    ),
]
PrincipalOption = Annotated[
    list[str] | None,
    typer.Option("--principal", metavar="TYPE:NAME", help="Only those of this principal. Repeatable."),
]


class AddedPattern(enum.Enum):
    """The pattern types that an ACL may have."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class ChosenPattern(enum.Enum):
    """The pattern types that a filter may have."""

    ANY = "any"
    MATCH = "match"
    LITERAL = "literal"
    PREFIXED = "prefixed"


ChosenPatternOption = Annotated[
    ChosenPattern,
    typer.Option(
        "--resource-pattern-type",
        help="Which ACLs the names of resources mean: those of exactly this name and pattern type, of any "
        "pattern type, or with match all that concern the resource.",
    ),
]


def _resources(
    topics: list[str] | None, groups: list[str] | None, transactional_ids: list[str] | None, cluster: bool
) -> "list[tuple[ResourceType, str]]":
    from quorate.broker.metadata.acls import CLUSTER_NAME, ResourceType

    return [
        *((ResourceType.TOPIC, each) for each in topics or ()),
        *((ResourceType.GROUP, each) for each in groups or ()),
        *((ResourceType.TRANSACTIONAL_ID, each) for each in transactional_ids or ()),
        *([(ResourceType.CLUSTER, CLUSTER_NAME)] if cluster else []),
    ]


def _operations(texts: Iterable[str]) -> "list[AclOperation]":
    """Return the operations by their names, as Kafka's tools take them: in any case, words joined or not."""
    from quorate.broker.metadata.acls import AclOperation

    known = {each.name.replace("_", ""): each for each in AclOperation}
    found: list[AclOperation] = []
    for text in texts:
        operation = known.get(text.upper().replace("_", "").replace("-", ""))
        if operation is None:
            names = ", ".join(each.name.lower().replace("_", "-") for each in AclOperation)
            raise wrong_usage(f"--operation {text!r} is none of {names}")
        found.append(operation)
    return found


def _principal(text: str) -> "Principal":
    from quorate.broker.wire.principals import Principal

    try:
        return Principal.parse(text)
    except ValueError as error:
        raise wrong_usage(str(error)) from None


def _whom(
    allowed: list[str] | None,
    denied: list[str] | None,
    allow_hosts: list[str] | None,
    deny_hosts: list[str] | None,
) -> "Iterator[tuple[AclPermission, str, list[str]]]":
    """Yield each principal, with its permission and its hosts. Without hosts: empty."""
    from quorate.broker.metadata.acls import AclPermission

    for permission, principals, hosts, option in (
        (AclPermission.ALLOW, allowed, allow_hosts, "allow"),
        (AclPermission.DENY, denied, deny_hosts, "deny"),
    ):
        if hosts and not principals:
            raise wrong_usage(f"--{option}-host has no --{option}-principal; give User:* for everybody")
        for each in principals or ():
            _principal(each)
            yield permission, each, hosts or []


def _print(acls: "list[Acl]", *, as_json: bool) -> None:
    if as_json:
        from quorate.cli.images.image_tree import acl_value

        print_json([acl_value(each) for each in acls])
        return
    print_rows(
        ("resource", "name", "pattern", "principal", "permission", "operation", "host"),
        [
            (
                each.resource_type.name,
                each.name,
                each.pattern.name,
                each.principal,
                each.permission.name,
                each.operation.name,
                each.host,
            )
            for each in acls
        ],
    )


@app.command("list", epilog="Example: quorate acls list --topic orders --resource-pattern-type match")
def list_all(
    principal: PrincipalOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    cluster: ClusterOption = False,
    pattern: ChosenPatternOption = ChosenPattern.ANY,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the ACLs: all, or those of resources or principals."""
    from quorate.broker.admin.acls import list_acls
    from quorate.broker.metadata.acls import AclFilter, PatternFilter, ResourceType

    for each in principal or ():
        _principal(each)
    resources: list[tuple[ResourceType | None, str | None]] = [
        *_resources(topic, group, transactional_id, cluster)
    ]
    principals: list[str | None] = [*(principal or ())]
    filters = [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern=PatternFilter.ANY if kind is None else PatternFilter[pattern.name],
            principal=who,
        )
        for kind, name in resources or [(None, None)]
        for who in principals or [None]
    ]

    async def read(admin: "AdminClient") -> "list[Acl]":
        return list(dict.fromkeys([acl for each in filters for acl in await list_acls(admin, each)]))

    _print(ask(bootstrap, read), as_json=as_json)


@app.command(epilog="Example: quorate acls add --allow-principal User:ann --operation read --topic orders")
def add(
    allow_principal: AllowOption = None,
    deny_principal: DenyOption = None,
    operation: OperationOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    cluster: ClusterOption = False,
    pattern: Annotated[
        AddedPattern,
        typer.Option(
            "--resource-pattern-type", help="prefixed: the names are beginnings of names of resources."
        ),
    ] = AddedPattern.LITERAL,
    allow_host: AllowHostOption = None,
    deny_host: DenyHostOption = None,
    producer: Annotated[
        bool, typer.Option("--producer", help="What a producer to the topics needs: write, describe, create.")
    ] = False,
    consumer: Annotated[
        bool,
        typer.Option("--consumer", help="What a consumer of the topics in the groups needs: read, describe."),
    ] = False,
    idempotent: Annotated[
        bool, typer.Option("--idempotent", help="With --producer: idempotent writes, for old brokers.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Add ACLs: each principal may, or may not, do each operation with each resource. Default: all
    operations. Those that are there stay."""
    from quorate.broker.admin.acls import create_acls
    from quorate.broker.metadata.acls import CLUSTER_NAME, Acl, AclOperation, PatternType, ResourceType

    resources = _resources(topic, group, transactional_id, cluster)
    if producer or consumer:
        if operation:
            raise wrong_usage("--producer and --consumer have their operations; leave --operation out")
        if not topic or (consumer and not group):
            raise wrong_usage("name the topics with --topic, and with --consumer the groups with --group")
        needs = _needs(resources, producer=producer, consumer=consumer)
        if producer and idempotent:
            needs.append((ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE))
    else:
        chosen = _operations(operation or ["all"])
        needs = [(kind, name, each) for kind, name in resources for each in chosen]
    if not needs:
        raise wrong_usage("name a resource: --topic, --group, --transactional-id or --cluster")
    acls = [
        Acl(
            resource_type=kind,
            name=name,
            pattern=PatternType.LITERAL if kind is ResourceType.CLUSTER else PatternType[pattern.name],
            principal=who,
            host=host,
            operation=each,
            permission=permission,
        )
        for permission, who, hosts in _whom(allow_principal, deny_principal, allow_host, deny_host)
        for kind, name, each in needs
        for host in hosts or ["*"]
    ]
    if not acls:
        raise wrong_usage("name who may or may not: --allow-principal or --deny-principal")
    ask(bootstrap, lambda admin: create_acls(admin, acls))
    _print(acls, as_json=as_json)


def _needs(
    resources: "list[tuple[ResourceType, str]]", *, producer: bool, consumer: bool
) -> "list[tuple[ResourceType, str, AclOperation]]":
    """Return what producers and consumers need, as kafka-acls grants it."""
    from quorate.broker.metadata.acls import AclOperation, ResourceType

    write, read, describe = AclOperation.WRITE, AclOperation.READ, AclOperation.DESCRIBE
    needs: dict[tuple[ResourceType, str, AclOperation], None] = {}
    for kind, name in resources:
        operations: list[AclOperation] = []
        if producer and kind is ResourceType.TOPIC:
            operations += [write, describe, AclOperation.CREATE]
        if producer and kind is ResourceType.TRANSACTIONAL_ID:
            operations += [write, describe]
        if consumer and kind is ResourceType.TOPIC:
            operations += [read, describe]
        if consumer and kind is ResourceType.GROUP:
            operations += [read]
        needs |= dict.fromkeys((kind, name, each) for each in operations)
    return list(needs)


@app.command(epilog="Example: quorate acls remove --allow-principal User:ann --topic orders")
def remove(
    allow_principal: AllowOption = None,
    deny_principal: DenyOption = None,
    operation: OperationOption = None,
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    cluster: ClusterOption = False,
    pattern: ChosenPatternOption = ChosenPattern.LITERAL,
    allow_host: AllowHostOption = None,
    deny_host: DenyHostOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Remove the ACLs of resources or principals, and show them. What is left out means any: without an
    operation those of every operation go."""
    from quorate.broker.admin.acls import delete_acls
    from quorate.broker.metadata.acls import (
        AclFilter,
        AclOperation,
        AclPermission,
        PatternFilter,
        ResourceType,
    )

    resources: list[tuple[ResourceType | None, str | None]] = [
        *_resources(topic, group, transactional_id, cluster)
    ]
    whom: list[tuple[AclPermission | None, str | None, list[str]]] = [
        *_whom(allow_principal, deny_principal, allow_host, deny_host)
    ]
    if not resources and not whom:
        raise wrong_usage("name a resource or a principal whose ACLs are to go")
    operations: list[AclOperation | None] = [*_operations(operation or ())]
    filters = [
        AclFilter(
            resource_type=kind,
            name=name,
            pattern=PatternFilter.ANY if kind is None else PatternFilter[pattern.name],
            principal=who,
            host=host,
            operation=each,
            permission=permission,
        )
        for kind, name in resources or [(None, None)]
        for permission, who, hosts in whom or [(None, None, [])]
        for host in (*hosts,) or (None,)
        for each in operations or [None]
    ]
    _print(ask(bootstrap, lambda admin: delete_acls(admin, filters)), as_json=as_json)


@app.command(epilog="Example: quorate acls explain --principal User:bob --operation read --topic orders")
def explain(
    principal: Annotated[str, typer.Option("--principal", metavar="TYPE:NAME", help="Who asks.")],
    operation: Annotated[str, typer.Option("--operation", help="What they want to do, such as read.")],
    topic: TopicOption = None,
    group: GroupOption = None,
    transactional_id: TransactionalIdOption = None,
    cluster: ClusterOption = False,
    host: Annotated[
        str,
        typer.Option("--host", metavar="ADDRESS", help="From where. Default: where no ACL names."),
    ] = "*",
    brokers: BrokersOption = None,
    data: Annotated[
        Path | None,
        typer.Option("--data", "-d", help="Read this folder of a node.", exists=True, file_okay=False),
    ] = None,
    snapshot: Annotated[
        Path | None,
        typer.Option("--snapshot", "-s", help="Read this .checkpoint file.", exists=True, dir_okay=False),
    ] = None,
    offset: Annotated[
        int | None,
        typer.Option("--offset", "-o", min=0, help="By the ACLs up to this offset of the metadata log."),
    ] = None,
    super_users: Annotated[
        str, typer.Option("--super-users", help="super.users, where no broker is asked: User:a;User:b.")
    ] = "",
    allow_everyone: Annotated[
        bool,
        typer.Option("--allow-everyone-if-no-acl-found", help="That this is set, where no broker is asked."),
    ] = False,
    with_since: Annotated[
        bool,
        typer.Option(
            "--since",
            help="Say since when, and by which change: the metadata log is read from its beginning.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Say whether a request would be allowed, by which rule or ACL, and what would change that.

    A live cluster is asked for its ACLs and for its settings. An earlier state is read from the metadata log,
    where the settings are not.
    """
    from quorate.broker.access.explanation import changes_of, reason_of
    from quorate.broker.access.standard_authorizer import StandardAuthorizer

    who = _principal(principal)
    (wanted,) = _operations([operation])
    resources = _resources(topic, group, transactional_id, cluster)
    if len(resources) != 1:
        raise wrong_usage("name one resource: --topic, --group, --transactional-id or --cluster")
    ((kind, name),) = resources
    acls: AclIndex | None = None
    found: Since | None = None
    if data is None and snapshot is None and offset is None:
        acls, super_users, allow_everyone = _live_acls(brokers or DEFAULT_BOOTSTRAP, kind, name)
    super_ones = [_principal(each.strip()) for each in super_users.split(";") if each.strip()]

    def authorizer_of(acls: "AclIndex") -> StandardAuthorizer:
        return StandardAuthorizer(
            lambda: acls,
            super_users=super_ones,
            allow_everyone_if_no_acl=allow_everyone,
            now=lambda: 0.0,
        )

    if acls is None or with_since:
        with user_errors():
            from quorate.broker.metadata.acls import AclFilter, PatternFilter
            from quorate.cli.commands.metadata_commands import open_replay
            from quorate.cli.images.acl_history import since
            from quorate.cli.images.replay import LATEST, Moment

            replay = open_replay(brokers, data, snapshot)
            moment = LATEST if offset is None else Moment(offset, None)
            if with_since:
                meant = AclFilter(resource_type=kind, name=name, pattern=PatternFilter.MATCH)
                found = since(
                    replay,
                    moment,
                    allows=lambda then: authorizer_of(then).decide(who, host, wanted, kind, name).allowed,
                    # Where everybody may do what no ACL is about, an ACL for others decides too.
                    about=lambda then: (
                        [each[1] for each in then.chosen(meant) if each is not None]
                        if allow_everyone
                        else then.for_resource(kind, name, str(who))
                    ),
                )
            else:
                replay.move_to(moment)
            acls = replay.image.acls
    authorizer = authorizer_of(acls)
    decision = authorizer.decide(who, host, wanted, kind, name)
    changes = list(changes_of(decision, acls, kind, name, allow_everyone=allow_everyone))
    if as_json:
        from quorate.cli.images.image_tree import acl_value

        print_json(
            {
                "allowed": decision.allowed,
                "rule": decision.rule.value,
                "acl": None if decision.acl is None else acl_value(decision.acl),
                "reason": reason_of(decision),
                "changes": changes,
            }
            | ({} if found is None else {"since": _since_value(found)})
        )
        return
    typer.echo(f"{'allowed' if decision.allowed else 'denied'}: {reason_of(decision)}")
    if found is not None:
        for line in _since_lines(found):
            typer.echo(line)
    for each in changes:
        typer.echo(f"to change it: {each}")


def _live_acls(bootstrap: str, kind: "ResourceType", name: str) -> "tuple[AclIndex, str, bool]":
    """Return the ACLs that mean the resource, `super.users` and `allow.everyone.if.no.acl.found`."""
    import uuid

    from quorate.broker.admin.acls import authorizer_settings, list_acls
    from quorate.broker.metadata.acl_index import AclIndex
    from quorate.broker.metadata.acls import AclFilter, PatternFilter

    wanted = AclFilter(resource_type=kind, name=name, pattern=PatternFilter.MATCH)

    async def read(admin: "AdminClient") -> "tuple[AclIndex, str, bool]":
        index = AclIndex()
        for number, acl in enumerate(await list_acls(admin, wanted)):
            # Their ids are not in the answer, and decide nothing.
            index.add(uuid.UUID(int=number), acl)
        return index, *await authorizer_settings(admin)

    return ask(bootstrap, read)


def _since_lines(found: "Since") -> "Iterator[str]":
    from quorate.broker.admin.acls import text_of
    from quorate.cli.images.replay import shown_time

    time = "" if found.timestamp_ms is None else f" ({shown_time(found.timestamp_ms)})"
    if not found.changed:
        yield f"since before offset {found.first_offset}{time}, with which {found.place} begins"
        return
    yield f"since offset {found.first_offset}{time}, where the decision changed:"
    yield from (f"  added: {text_of(each)}" for each in found.added)
    yield from (f"  removed: {text_of(each)}" for each in found.removed)


def _since_value(found: "Since") -> "dict[str, Json]":
    from quorate.cli.images.image_tree import acl_value

    return {
        "changed": found.changed,
        "offset": found.first_offset,
        "timestampMs": found.timestamp_ms,
        "added": [acl_value(each) for each in found.added],
        "removed": [acl_value(each) for each in found.removed],
    }


@app.command(epilog="Example: quorate acls check acls.json")
def check(
    file: Annotated[
        Path,
        typer.Argument(
            help="The ACLs that the cluster is to have, as quorate acls list --json prints them.",
            exists=True,
            dir_okay=False,
        ),
    ],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Compare the ACLs with those of a file, and print the commands that make them equal.

    The exit code is 1 if they differ. Nothing is changed.
    """
    from quorate.broker.admin.acls import list_acls
    from quorate.broker.metadata.acls import AclFilter

    with user_errors():
        from quorate.cli.commands.acl_files import command_of, load_acls

        wanted = load_acls(file)
    held = ask(bootstrap, lambda admin: list_acls(admin, AclFilter()))
    are_held, are_wanted = frozenset(held), frozenset(wanted)
    missing = [each for each in wanted if each not in are_held]
    surplus = [each for each in held if each not in are_wanted]
    if as_json:
        from quorate.cli.images.image_tree import acl_value

        print_json({"missing": list(map(acl_value, missing)), "surplus": list(map(acl_value, surplus))})
    else:
        for each in missing:
            typer.echo(command_of(each, add=True))
        for each in surplus:
            typer.echo(command_of(each, add=False))
    if missing or surplus:
        raise fail(f"{len(missing)} ACLs are missing, {len(surplus)} are not in {file}", ExitCode.FAILED)


@app.command(epilog="Example: quorate acls unused")
def unused(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show the ACLs that no decision of any live broker has needed since it started.

    One that decides only at the end of a month is among them until then, and so is one that another ACL makes
    superfluous.
    """
    from quorate.broker.admin.acls import unused_acls

    acls, counted_ms = ask(bootstrap, unused_acls)
    if as_json:
        from quorate.cli.images.image_tree import acl_value

        counted = [{"broker": broker, "countedMs": ms} for broker, ms in counted_ms.items()]
        print_json({"acls": list(map(acl_value, acls)), "brokers": counted})
        return
    _print(acls, as_json=False)
    for broker, ms in counted_ms.items():
        typer.echo(f"broker {broker} has decided for {ms / 3_600_000:.1f} hours")
