"""The decision by ACLs, against a list of them that is read from end to end."""

import itertools
import logging
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.access.authorizer import Authorizer
from quorate.broker.access.standard_authorizer import Decision, Rule, StandardAuthorizer
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternFilter,
    PatternType,
    ResourceType,
)
from quorate.broker.metadata.delta import apply_records
from quorate.broker.metadata.difference import difference
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import AccessControlEntry, RemoveAccessControlEntry
from quorate.broker.wire.principals import NODE, Principal
from quorate.runtime import AUDIT_LOGGER
from tests.broker.controller.images import from_snapshot

ANN, BOB = Principal("User", "ann"), Principal("User", "bob")
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
HOST = "10.0.0.7"


def acl(
    principal: str = "User:ann",
    permission: AclPermission = ALLOW,
    operation: AclOperation = READ,
    name: str = "orders",
    pattern: PatternType = LITERAL,
    kind: ResourceType = TOPIC,
    host: str = "*",
) -> Acl:
    return Acl(
        resource_type=kind,
        name=name,
        pattern=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission=permission,
    )


def index_of(*acls: Acl) -> AclIndex:
    index = AclIndex()
    for number, each in enumerate(acls):
        index.add(uuid.UUID(int=number), each)
    return index


def authorizer(
    *acls: Acl, everyone: bool = False, super_users: tuple[Principal, ...] = ()
) -> StandardAuthorizer:
    index = index_of(*acls)
    return StandardAuthorizer(
        lambda: index, super_users=super_users, allow_everyone_if_no_acl=everyone, now=lambda: 0.0
    )


# The rules, written once more, without an index

IMPLIES = {
    "READ": {"DESCRIBE"},
    "WRITE": {"DESCRIBE"},
    "DELETE": {"DESCRIBE"},
    "ALTER": {"DESCRIBE"},
    "ALTER_CONFIGS": {"DESCRIBE_CONFIGS"},
}


def means(each: Acl, kind: ResourceType, name: str) -> bool:
    if each.resource_type != kind:
        return False
    return name[: len(each.name)] == each.name if each.pattern == PREFIXED else each.name in (name, "*")


def decided(
    acls: list[Acl],
    who: str,
    host: str,
    operation: AclOperation,
    kind: ResourceType,
    name: str,
    everyone: bool,
) -> bool:
    meant = [each for each in acls if means(each, kind, name)]
    about = [each for each in meant if each.principal in (who, "User:*") and each.host in (host, "*")]
    if any(each.permission == DENY and each.operation in (operation, ALL) for each in about):
        return False
    if any(
        each.permission == ALLOW
        and (each.operation in (operation, ALL) or operation.name in IMPLIES.get(each.operation.name, ()))
        for each in about
    ):
        return True
    return everyone and not meant


def some_allowed(
    acls: list[Acl], who: str, operation: AclOperation, kind: ResourceType, everyone: bool
) -> bool:
    """By every name there can be: those of up to four letters, one of which is in no ACL, and one that only
    the prefix `*` takes."""
    names = ["".join(each) for size in (1, 2, 3, 4) for each in itertools.product("abz", repeat=size)]
    names.append("*z")
    plain = [each for each in acls if each.operation in (operation, ALL)]
    return decided(acls, who, HOST, operation, kind, "zzzz", everyone) or any(
        decided(plain, who, HOST, operation, kind, name, False) for name in names
    )


def _over(image: MetadataImage, *, everyone: bool) -> StandardAuthorizer:
    return StandardAuthorizer(lambda: image.acls, allow_everyone_if_no_acl=everyone, now=lambda: 0.0)


ACLS = st.builds(
    acl,
    principal=st.sampled_from(["User:ann", "User:bob", "User:*", "nobody"]),
    permission=st.sampled_from([*AclPermission]),
    operation=st.sampled_from([*AclOperation]),
    name=st.sampled_from(["a", "b", "ab", "aba", "ba", "*"]),
    pattern=st.sampled_from([*PatternType]),
    kind=st.sampled_from([TOPIC, GROUP]),
    host=st.sampled_from(["*", HOST]),
)
QUERIES = st.tuples(
    st.sampled_from([ANN, BOB]),
    st.sampled_from([HOST, "::ffff:10.0.0.7", "10.0.0.8"]),
    st.sampled_from([*AclOperation]),
    st.sampled_from([TOPIC, GROUP]),
    st.sampled_from(["a", "b", "ab", "abab", "ba", "z", "*"]),
)


@pytest.mark.bug("NATS 2026-18")
@pytest.mark.bug("CVE-2024-27309")
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "add", "remove", "copy", "snapshot"]), ACLS, QUERIES), max_size=30
    ),
    st.booleans(),
    st.data(),
)
def test_each_decision_is_that_of_a_list_after_any_changes_and_copies(
    steps: list[tuple[str, Acl, tuple[Principal, str, AclOperation, ResourceType, str]]],
    everyone: bool,
    data: st.DataObject,
) -> None:
    image, held = MetadataImage(), dict[uuid.UUID, Acl]()
    chosen = StandardAuthorizer(
        lambda: image.acls, allow_everyone_if_no_acl=everyone, super_users=(), now=lambda: 0.0
    )
    kept: list[tuple[MetadataImage, dict[uuid.UUID, Acl]]] = []
    asked = []
    for number, (step, drawn, query) in enumerate(steps):
        version = chosen.version
        if step == "add" and drawn not in held.values():
            acl_id = uuid.UUID(int=number)
            image.apply(AccessControlEntry(id=acl_id, acl=drawn), offset=number, epoch=1)
            held[acl_id] = drawn
            assert chosen.version is not version
        elif step == "remove" and held:
            acl_id = data.draw(st.sampled_from([*held]))
            image.apply(RemoveAccessControlEntry(id=acl_id), offset=number, epoch=1)
            del held[acl_id]
            assert chosen.version is not version
        elif step == "copy":
            kept.append((image, dict(held)))
            image = image.copy()
            assert chosen.version is version
        elif step == "snapshot":
            image = from_snapshot(image)
        asked.append(query)
        # Those of before are asked again: an answer that is remembered must not outlive the ACLs.
        for who, host, operation, kind, name in asked:
            plain = host.removeprefix("::ffff:")
            assert chosen.allows(who, host, operation, kind, name, audited=False) == decided(
                [*held.values()], str(who), plain, operation, kind, name, everyone
            )
        who, _, operation, kind, _ = query
        assert chosen.allows_some(who, HOST, operation, kind) == some_allowed(
            [*held.values()], str(who), operation, kind, everyone
        )
    for earlier, then in kept:
        assert dict(earlier.acls.by_id) == then, "a copy changed with the other"
        again = _over(earlier, everyone=everyone)
        for who, host, operation, kind, name in asked:
            plain = host.removeprefix("::ffff:")
            assert again.allows(who, host, operation, kind, name, audited=False) == decided(
                [*then.values()], str(who), plain, operation, kind, name, everyone
            )
        assert earlier.acls == from_snapshot(earlier).acls


@pytest.mark.bug("NATS 2026-18")
@given(st.lists(ACLS, max_size=6, unique=True), QUERIES, st.booleans(), st.randoms())
def test_the_order_of_acls_decides_nothing(acls, query, everyone, random) -> None:  # type: ignore[no-untyped-def]
    first = authorizer(*acls, everyone=everyone).allows(*query, audited=False)
    random.shuffle(acls)
    assert authorizer(*acls, everyone=everyone).allows(*query, audited=False) == first


def test_a_super_user_is_allowed_whatever_is_denied() -> None:
    chosen = authorizer(acl("User:*", DENY, ALL, "*"), super_users=(ANN,))
    assert chosen.decide(ANN, HOST, READ, TOPIC, "orders") == Decision(True, Rule.SUPER_USER)
    assert not chosen.allows(Principal("User", "Ann"), HOST, READ, TOPIC, "orders", audited=False)
    assert not chosen.allows(Principal("Group", "ann"), HOST, READ, TOPIC, "orders", audited=False)


def test_a_node_may_act_for_the_cluster_and_is_no_super_user() -> None:
    node, action = Principal(NODE, "7"), AclOperation.CLUSTER_ACTION
    chosen = authorizer(acl("User:*", DENY, ALL, CLUSTER_NAME, kind=CLUSTER), super_users=(node,))
    assert chosen.decide(node, HOST, action, CLUSTER, CLUSTER_NAME) == Decision(True, Rule.NODE)
    assert not chosen.allows(node, HOST, AclOperation.ALTER, CLUSTER, CLUSTER_NAME, audited=False)
    assert not chosen.allows(node, HOST, READ, TOPIC, "orders", audited=False)
    assert not chosen.allows(Principal("User", "7"), HOST, action, CLUSTER, CLUSTER_NAME, audited=False)


@pytest.mark.parametrize("operation", [READ, WRITE, AclOperation.DELETE, AclOperation.ALTER])
def test_what_is_allowed_may_be_described_and_what_is_denied_too(operation: AclOperation) -> None:
    assert authorizer(acl(operation=operation)).allows(ANN, HOST, DESCRIBE, TOPIC, "orders")
    forbidden = authorizer(acl("User:*", DENY, operation), acl(operation=DESCRIBE))
    assert forbidden.allows(ANN, HOST, DESCRIBE, TOPIC, "orders")
    assert not forbidden.allows(ANN, HOST, operation, TOPIC, "orders", audited=False)


@pytest.mark.bug("Kafka MatchingRuleBuilder.hasResourceAcls")
def test_one_acl_on_every_name_closes_the_type_for_all_others() -> None:
    chosen = authorizer(acl("User:bob", name="*"), everyone=True)
    assert chosen.decide(ANN, HOST, READ, TOPIC, "orders") == Decision(False, Rule.DEFAULT_DENY)
    assert chosen.decide(ANN, HOST, READ, GROUP, "orders") == Decision(True, Rule.DEFAULT_ALLOW)


@pytest.mark.bug("etcd issue 14355")
@pytest.mark.parametrize("everyone", [False, True])
def test_until_the_metadata_are_loaded_only_super_users_and_nodes_are_allowed(everyone: bool) -> None:
    """An ACL that denies may be among what is missing."""
    index, loaded = index_of(acl()), False
    chosen = StandardAuthorizer(
        lambda: index,
        super_users=(BOB,),
        allow_everyone_if_no_acl=everyone,
        now=lambda: 0.0,
        loaded=lambda: loaded,
    )
    node, action, sender = Principal(NODE, "7"), AclOperation.CLUSTER_ACTION, chosen.sender(ANN, HOST)
    for _ in range(2):
        assert chosen.decide(ANN, HOST, READ, TOPIC, "orders") == Decision(False, Rule.NOT_LOADED)
        assert not chosen.allows(ANN, HOST, READ, GROUP, "nobody's", audited=False)
        assert not chosen.allows_some(ANN, HOST, READ, TOPIC)
        assert not sender.allows(READ, TOPIC, "orders", audited=False)
        assert chosen.allows(BOB, HOST, WRITE, TOPIC, "orders")
        assert chosen.allows_some(BOB, HOST, WRITE, TOPIC)
        assert chosen.allows(node, HOST, action, CLUSTER, CLUSTER_NAME)
    loaded = True
    assert chosen.allows_some(ANN, HOST, READ, TOPIC), "what was denied before is not remembered"
    assert sender.allows(READ, TOPIC, "orders")
    assert chosen.allows(ANN, HOST, READ, GROUP, "nobody's", audited=False) is everyone
    loaded = False
    assert sender.allows(READ, TOPIC, "orders"), "it is asked once"


@pytest.mark.bug("Kafka StandardAcl.kafkaPrincipal")
def test_an_acl_whose_principal_has_no_type_is_nobodys() -> None:
    chosen = authorizer(acl("ann"), acl(operation=WRITE))
    assert not chosen.allows(ANN, HOST, READ, TOPIC, "orders", audited=False)
    assert chosen.allows(ANN, HOST, WRITE, TOPIC, "orders")


@pytest.mark.parametrize(
    ("held", "peer"),
    [("10.0.0.7", "::ffff:10.0.0.7"), ("fe80::1", "fe80:0:0:0:0:0:0:1%eth0"), ("::1", "[::1]")],
)
def test_one_address_in_two_forms_is_one_host(held: str, peer: str) -> None:
    assert authorizer(acl(host=held)).allows(ANN, peer, READ, TOPIC, "orders")
    assert not authorizer(acl(host=held)).allows(ANN, "10.0.0.70", READ, TOPIC, "orders", audited=False)


def test_decisions_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.broker.access.standard_authorizer._MOST_REMEMBERED", 10)
    chosen: Authorizer = authorizer(acl(pattern=PREFIXED))
    for number in range(100):
        assert chosen.allows(ANN, HOST, READ, TOPIC, f"orders-{number}")
        chosen.allows_some(Principal("User", str(number)), HOST, READ, TOPIC)
    assert isinstance(chosen, StandardAuthorizer)
    assert len(chosen._decisions) <= 10 >= len(chosen._some)


@pytest.mark.parametrize(
    ("acls", "some"),
    [
        ((acl(),), True),
        ((acl(), acl(permission=DENY)), False),
        ((acl(), acl("User:*", DENY, ALL, "ord", PREFIXED)), False),
        ((acl(), acl(permission=DENY, pattern=PREFIXED)), False),
        ((acl(pattern=PREFIXED), acl(permission=DENY)), True),
        ((acl(pattern=PREFIXED), acl(permission=DENY, name="orders-eu", pattern=PREFIXED)), True),
        ((acl(pattern=PREFIXED), acl(permission=DENY, name="ord", pattern=PREFIXED)), False),
        ((acl(name="*"), acl(permission=DENY, pattern=PREFIXED)), True),
        ((acl(pattern=PREFIXED), acl(permission=DENY, name="*")), False),
        ((acl(), acl("User:bob", DENY, name="*")), True),
        ((acl(), acl(permission=DENY, name="*", host="10.0.0.8")), True),
        ((acl(host="10.0.0.8"),), False),
        ((acl(operation=ALL),), True),
        ((acl(operation=WRITE),), False),
        ((acl(kind=GROUP),), False),
        ((), False),
    ],
)
def test_some_topic_may_be_read_unless_each_that_is_allowed_is_denied(
    acls: tuple[Acl, ...], some: bool
) -> None:
    assert authorizer(*acls).allows_some(ANN, HOST, READ, TOPIC) is some


def test_a_copy_keeps_its_prefixes_when_the_other_loses_them() -> None:
    image = MetadataImage()
    for number in range(2):
        record = AccessControlEntry(
            id=uuid.UUID(int=number), acl=acl(name="ab" + "c" * number, pattern=PREFIXED)
        )
        image.apply(record, offset=number, epoch=1)
    twin = image.copy()
    for number in range(2):
        twin.apply(RemoveAccessControlEntry(id=uuid.UUID(int=number)), offset=2, epoch=1)
    for each, allowed in ((image, True), (twin, False)):
        assert _over(each, everyone=False).allows(ANN, HOST, READ, TOPIC, "abd", audited=False) is allowed


def test_changes_and_copies_of_many_acls_are_no_rebuild() -> None:
    """By the ACLs that are looked at, not by the clock."""
    index = index_of(*(acl(f"User:u{number}", name=f"t{number}") for number in range(10_000)))
    found = index._found
    index.add(uuid.UUID(int=10_000), acl())
    index.remove(uuid.UUID(int=5))
    assert index._found is found
    assert len(index) == 10_000
    assert list(index.for_resource(TOPIC, "t7", "User:u7")) == [acl("User:u7", name="t7")]


FILTERS = st.builds(
    AclFilter,
    resource_type=st.sampled_from([None, TOPIC, GROUP]),
    name=st.sampled_from([None, "a", "ab", "*"]),
    pattern=st.sampled_from([*PatternFilter]),
    principal=st.sampled_from([None, "User:ann", "User:*"]),
    host=st.sampled_from([None, "*", HOST]),
    operation=st.sampled_from([None, READ, ALL]),
    permission=st.sampled_from([None, DENY]),
)


@given(FILTERS, ACLS)
def test_a_filter_takes_acls_by_each_of_its_fields(wanted: AclFilter, held: Acl) -> None:
    if wanted.name is None:
        name = wanted.pattern in (1, 2, held.pattern)
    elif wanted.pattern == PatternFilter.MATCH:
        name = means(held, held.resource_type, wanted.name)
    else:
        name = held.name == wanted.name and wanted.pattern in (1, held.pattern)
    pairs = (
        (wanted.resource_type, held.resource_type),
        (wanted.principal, held.principal),
        (wanted.host, held.host),
        (wanted.operation, held.operation),
        (wanted.permission, held.permission),
    )
    assert wanted.takes(held) == (name and all(mine is None or mine == theirs for mine, theirs in pairs))


def test_a_change_says_the_ids_of_its_acls() -> None:
    image, first, second = MetadataImage(), uuid.UUID(int=1), uuid.UUID(int=2)
    before = image.copy()
    created = [AccessControlEntry(id=first, acl=acl()), AccessControlEntry(id=second, acl=acl("User:bob"))]
    delta = apply_records(image, created, base_offset=0, epoch=1)
    assert delta.acls == difference(before, image).acls == (first, second)
    before = image.copy()
    removed = [RemoveAccessControlEntry(id=first)]
    delta = apply_records(image, removed, base_offset=2, epoch=1)
    assert delta.acls == difference(before, image).acls == (first,)
    assert image != before


# Audit lines


def test_a_denial_has_kafkas_line_and_a_permission_has_it_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    chosen = authorizer(acl(pattern=PREFIXED))
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        chosen.allows(ANN, HOST, READ, TOPIC, "orders")
        chosen.allows(BOB, HOST, READ, TOPIC, "hidden", audited=False)
        assert caplog.messages == []
        chosen.allows(BOB, HOST, READ, TOPIC, "orders")
    with caplog.at_level(logging.DEBUG, logger=AUDIT_LOGGER):
        chosen.allows(ANN, HOST, READ, TOPIC, "orders")
    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "INFO",
            "Principal = User:bob is Denied operation = READ from host = 10.0.0.7 on resource = "
            "Topic:LITERAL:orders with resourceRefCount = 1 based on rule DefaultDeny",
        ),
        (
            "DEBUG",
            "Principal = User:ann is Allowed operation = READ from host = 10.0.0.7 on resource = "
            "Topic:LITERAL:orders with resourceRefCount = 1 based on rule MatchingAcl(acl=StandardAcl("
            "resourceType=TOPIC, resourceName=orders, patternType=PREFIXED, principal=User:ann, host=*, "
            "operation=READ, permissionType=ALLOW))",
        ),
    ]


def test_a_name_can_neither_begin_a_line_nor_fill_a_disk(caplog: pytest.LogCaptureFixture) -> None:
    name = "g\nPrincipal = User:ann is Allowed\x1b[2J%s" + "x" * 30_000
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        authorizer().allows(BOB, HOST, READ, GROUP, name)
    (line,) = caplog.messages
    assert "Group:LITERAL:g\\nPrincipal = User:ann is Allowed\\x1b[2J%sxxx" in line
    assert line.isprintable()
    assert len(line) < 1000


def test_equal_denials_within_a_second_are_two_lines(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    index = AclIndex()
    chosen = StandardAuthorizer(lambda: index, now=lambda: now)
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        for each in range(500):
            now = each / 1000
            chosen.allows(BOB, HOST, READ, TOPIC, "orders")
        assert len(caplog.messages) == 1
        now = 1.0
        chosen.allows(BOB, HOST, READ, TOPIC, "other")
        assert len(caplog.messages) == 3
        assert caplog.messages[1].endswith("DefaultDeny (denied 499 more times within a second)")
        now = 2.5
        chosen.allows(BOB, HOST, READ, TOPIC, "orders")
        assert len(caplog.messages) == 4, "one alone has no count"


@pytest.mark.bug("redpanda PR 28616")
def test_audit_lines_go_on_when_their_level_is_what_it_was(caplog: pytest.LogCaptureFixture) -> None:
    now, index = 0.0, index_of()
    chosen = StandardAuthorizer(lambda: index, now=lambda: now)
    for level, name, lines in ((logging.INFO, "a", 1), (logging.ERROR, "b", 1), (logging.INFO, "c", 2)):
        with caplog.at_level(level, logger=AUDIT_LOGGER):
            assert not chosen.allows(ANN, HOST, READ, TOPIC, name)
            assert len(caplog.messages) == lines
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        now = 2.0
        assert not chosen.allows(ANN, HOST, READ, TOPIC, "b")
    assert "Topic:LITERAL:b" in caplog.messages[-1]


# Senders


def test_a_sender_remembers_what_is_allowed_until_the_acls_change() -> None:
    """By what the authorizer is asked, not by the clock."""
    image = MetadataImage()
    first, second = uuid.UUID(int=1), uuid.UUID(int=2)
    image.apply(AccessControlEntry(id=first, acl=acl()), offset=0, epoch=1)
    chosen = StandardAuthorizer(lambda: image.acls, now=lambda: 0.0)
    asked: list[str] = []
    decide = chosen.decide

    def counting(
        who: Principal, host: str, operation: AclOperation, resource: ResourceType, name: str
    ) -> Decision:
        asked.append(name)
        return decide(who, host, operation, resource, name)

    chosen.decide = counting  # type: ignore[method-assign]
    sender = chosen.sender(ANN, HOST)
    for _ in range(3):
        assert sender.allows(READ, TOPIC, "orders")
        assert not sender.allows(READ, TOPIC, "logs", audited=False)
        assert not sender.allows(WRITE, TOPIC, "orders", audited=False)
        assert not sender.allows(READ, GROUP, "orders", audited=False)
    assert asked.count("orders") == 7, "a permission is asked for once, a denial each time"
    image.apply(AccessControlEntry(id=second, acl=acl(permission=DENY)), offset=1, epoch=1)
    assert not sender.allows(READ, TOPIC, "orders", audited=False)
    image.apply(RemoveAccessControlEntry(id=second), offset=2, epoch=1)
    assert sender.allows(READ, TOPIC, "orders")
    # Another image takes its place, as when a snapshot is loaded.
    image = MetadataImage()
    assert not sender.allows(READ, TOPIC, "orders", audited=False)


def test_what_a_sender_remembers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.broker.access.standard_authorizer._MOST_OF_SENDER", 10)
    sender = authorizer(acl(pattern=PREFIXED)).sender(ANN, HOST)
    for number in range(100):
        assert sender.allows(READ, TOPIC, f"orders-{number}")
    assert len(sender._allowed) <= 10  # type: ignore[attr-defined]


def test_a_remembered_permission_has_its_audit_line_once_the_level_is_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sender = authorizer(acl()).sender(ANN, HOST)
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        assert sender.allows(READ, TOPIC, "orders")
        assert sender.allows(READ, TOPIC, "orders")
        assert caplog.messages == []
    with caplog.at_level(logging.DEBUG, logger=AUDIT_LOGGER):
        assert sender.allows(READ, TOPIC, "orders", request="Produce")
    (line,) = caplog.messages
    assert "User:ann is Allowed operation = READ" in line
    assert "for request = Produce" in line


def test_a_remembered_permission_ends_the_second_of_a_denial(caplog: pytest.LogCaptureFixture) -> None:
    now, index = 0.0, index_of(acl())
    sender = StandardAuthorizer(lambda: index, now=lambda: now).sender(ANN, HOST)
    with caplog.at_level(logging.INFO, logger=AUDIT_LOGGER):
        assert sender.allows(READ, TOPIC, "orders")
        for _ in range(5):
            sender.allows(WRITE, TOPIC, "orders")
        now = 1.5
        assert sender.allows(READ, TOPIC, "orders")
    assert caplog.messages[-1].endswith("(denied 4 more times within a second)")


# Unused ACLs


def unused(chosen: StandardAuthorizer, *acls: Acl) -> list[Acl]:
    return [each for each in chosen.use.unused(acls) if each is not None]


def test_an_acl_is_used_once_a_decision_was_made_by_it() -> None:
    read, write = acl(), acl(operation=WRITE)
    deny = acl("User:bob", DENY, ALL, "or", PREFIXED)
    chosen = authorizer(read, write, deny)
    assert unused(chosen, read, write, deny) == [read, write, deny]
    assert chosen.use.began_at is None
    chosen.allows(ANN, HOST, READ, TOPIC, "orders")
    chosen.allows(ANN, HOST, READ, TOPIC, "logs", audited=False)
    assert unused(chosen, read, write, deny) == [write, deny]
    assert chosen.use.began_at == 0.0
    chosen.allows(BOB, HOST, READ, TOPIC, "orders", audited=False)
    assert unused(chosen, read, write, deny) == [write]
    chosen.allows_some(ANN, HOST, WRITE, TOPIC)
    assert unused(chosen, read, write, deny) == []


def test_denials_that_leave_nothing_of_what_is_allowed_are_used() -> None:
    allowed, denied = acl(), acl(permission=DENY)
    chosen = authorizer(allowed, denied)
    assert not chosen.allows_some(ANN, HOST, READ, TOPIC)
    assert unused(chosen, allowed, denied) == [allowed]


def test_an_acl_that_closes_a_resource_to_others_is_used_where_everybody_may_do_the_rest() -> None:
    one, other = acl("User:bob"), acl("User:bob", name="logs")
    for everyone, left in ((True, [other]), (False, [one, other])):
        chosen = authorizer(one, other, everyone=everyone)
        assert not chosen.allows(ANN, HOST, READ, TOPIC, "orders", audited=False)
        assert unused(chosen, one, other) == left


def test_the_use_of_acls_that_were_removed_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.broker.access.acl_use._SPARE", 0)
    index = AclIndex()
    chosen = StandardAuthorizer(lambda: index, now=lambda: 0.0, allow_everyone_if_no_acl=True)
    for number in range(50):
        index.add(uuid.UUID(int=number), acl(name=f"t{number}"))
        assert chosen.allows(ANN, HOST, READ, TOPIC, f"t{number}")
        assert not chosen.allows(BOB, HOST, READ, TOPIC, f"t{number}", audited=False)
        index.remove(uuid.UUID(int=number))
    assert len(chosen.use._needed) <= 2 >= len(chosen.use._patterns)
