"""`quorate acls`: through the requests of a node that decides by ACLs, and against a cluster without an
authorizer."""

import json
import shlex
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from acl_node import AclNode
from kio.schema.errors import ErrorCode
from metadata_folder import MetadataFolder

from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.metadata.metadata_records import AccessControlEntry, RemoveAccessControlEntry
from quorate.broker.wire.api import FIRST_OWN, ApiKey
from quorate.broker.wire.principals import ANONYMOUS, Principal
from quorate.cli.commands import acl_commands
from quorate.cli.console.cli_errors import ExitCode, user_errors
from tests.cli.command import Quorate


class Admin:
    """The administrator's connection to the node. `settings`: what its broker says that it is configured
    with."""

    def __init__(self, node: AclNode, settings: dict[str, str]) -> None:
        self._node = node
        self._settings = settings

    async def addresses(self) -> dict[int, object]:
        await trio.lowlevel.checkpoint()
        return {1: None}

    async def to(self, address: object) -> None:
        await trio.lowlevel.checkpoint()

    async def broker(self, broker_id: str, *, of: str) -> None:
        await trio.lowlevel.checkpoint()

    async def call(self, key: ApiKey, *, at: object = None, timeout_s: object = None, **fields: Any) -> Any:
        if key is ApiKey.DESCRIBE_CONFIGS:
            configs = [
                SimpleNamespace(
                    name=name, value=value, config_source=4, read_only=True, is_sensitive=False, synonyms=()
                )
                for name, value in self._settings.items()
            ]
            result = SimpleNamespace(error_code=ErrorCode.none, error_message=None, configs=configs)
            return SimpleNamespace(results=[result])
        return await self._node.ask(key, 0 if key >= FIRST_OWN else 3, **fields)

    change = call


@pytest.fixture
def settings() -> dict[str, str]:
    return {}


@pytest.fixture
def node() -> AclNode:
    return AclNode()


@pytest.fixture
def acls(
    quorate: Quorate, node: AclNode, settings: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Quorate:
    def ask(bootstrap: str, action: Any) -> Any:
        with user_errors():
            return trio.run(action, Admin(node, settings))

    monkeypatch.setattr(acl_commands, "ask", ask)
    return Quorate()


def rows(found: list[dict[str, str]]) -> list[str]:
    order = (
        *("resourceType", "resourceName", "patternType", "principal"),
        *("permissionType", "operation", "host"),
    )
    return [" ".join(each[key] for key in order) for each in found]


ANN = ("--allow-principal", "User:ann")
PREFIXED = ("--resource-pattern-type", "prefixed")


def test_acls_are_added_listed_and_removed(acls: Quorate) -> None:
    deny = ("--deny-principal", "User:bob", "--deny-host", "10.0.0.7")
    both = ("acls", "add", *ANN, *deny, "--operation", "Read", "--operation", "describe-configs")
    added = acls.json(*both, "--topic", "orders", "--topic", "logs")
    assert len(added) == 8
    acls.output(
        "acls", "add", *ANN, "--operation", "alter", "--cluster", "--resource-pattern-type", "prefixed"
    )
    acls.output("acls", "add", *ANN, "--topic", "or", *PREFIXED)
    listed = rows(acls.json("acls", "list", "--topic", "orders", "--resource-pattern-type", "match"))
    assert listed == [
        "TOPIC or PREFIXED User:ann ALLOW ALL *",
        "TOPIC orders LITERAL User:ann ALLOW READ *",
        "TOPIC orders LITERAL User:ann ALLOW DESCRIBE_CONFIGS *",
        "TOPIC orders LITERAL User:bob DENY READ 10.0.0.7",
        "TOPIC orders LITERAL User:bob DENY DESCRIBE_CONFIGS 10.0.0.7",
    ]
    assert len(acls.json("acls", "list", "--topic", "orders")) == 4
    assert rows(acls.json("acls", "list", "--cluster")) == [
        "CLUSTER kafka-cluster LITERAL User:ann ALLOW ALTER *"
    ]
    assert "10.0.0.7" in acls.output("acls", "list", "--principal", "User:bob")
    removed = acls.json("acls", "remove", *ANN, "--topic", "orders", "--operation", "read")
    assert rows(removed) == ["TOPIC orders LITERAL User:ann ALLOW READ *"]
    bob = ("--deny-principal", "User:bob")
    assert acls.json("acls", "remove", *bob, "--deny-host", "10.0.0.8") == []
    assert len(acls.json("acls", "remove", *bob, "--deny-host", "10.0.0.7")) == 4
    assert len(acls.json("acls", "remove", *ANN, "--topic", "logs")) == 2
    assert rows(acls.json("acls", "list")) == [
        "TOPIC or PREFIXED User:ann ALLOW ALL *",
        "TOPIC orders LITERAL User:ann ALLOW DESCRIBE_CONFIGS *",
        "CLUSTER kafka-cluster LITERAL User:ann ALLOW ALTER *",
    ]


def test_producers_and_consumers_get_what_they_need(acls: Quorate) -> None:
    produce = ("--producer", "--idempotent", "--topic", "orders", "--transactional-id", "tx")
    added = rows(acls.json("acls", "add", *ANN, *produce))
    assert [each.replace(" LITERAL User:ann ALLOW", "") for each in added] == [
        "TOPIC orders WRITE *",
        "TOPIC orders DESCRIBE *",
        "TOPIC orders CREATE *",
        "TRANSACTIONAL_ID tx WRITE *",
        "TRANSACTIONAL_ID tx DESCRIBE *",
        "CLUSTER kafka-cluster IDEMPOTENT_WRITE *",
    ]
    added = rows(acls.json("acls", "add", *ANN, "--consumer", "--topic", "orders", "--group", "g"))
    assert [each.replace(" LITERAL User:ann ALLOW", "") for each in added] == [
        "TOPIC orders READ *",
        "TOPIC orders DESCRIBE *",
        "GROUP g READ *",
    ]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("add", "--allow-principal", "ann", "--topic", "t"), "'ann' is no principal; write Type:name"),
        (("add", *ANN), "name a resource: --topic"),
        (("add", "--topic", "t"), "name who may or may not: --allow-principal"),
        (("add", *ANN, "--topic", "t", "--operation", "fly"), "'fly' is none of all, read, write"),
        (("add", *ANN, "--topic", "t", "--deny-host", "1.2.3.4"), "--deny-host has no --deny-principal"),
        (("add", *ANN, "--consumer", "--topic", "t"), "with --consumer the groups"),
        (("add", *ANN, "--producer", "--topic", "t", "--operation", "read"), "leave --operation out"),
        (("remove",), "name a resource or a principal"),
        (("explain", "--principal", "User:a", "--operation", "read"), "name one resource"),
    ],
)
def test_a_mistake_is_named_with_its_remedy(quorate: Quorate, words: tuple[str, ...], says: str) -> None:
    assert says in quorate.error("acls", *words, code=ExitCode.USAGE)


@pytest.mark.slow
def test_the_clusters_refusal_names_the_acl(acls: Quorate) -> None:
    error = acls.error("acls", "add", *ANN, "--operation", "cluster-action", "--topic", "t")
    assert (
        "User:ann may CLUSTER_ACTION TOPIC t: A TOPIC has no operation CLUSTER_ACTION; it has READ" in error
    )


def explained(acls: Quorate, *words: str, operation: str = "read") -> tuple[bool, str, str]:
    who = ("--principal", "User:ann", "--operation", operation)
    found = acls.json("acls", "explain", *who, *(words or ("--topic", "orders")))
    return found["allowed"], found["rule"], " / ".join(found["changes"])


@pytest.mark.slow
def test_a_decision_is_explained_by_its_acl_and_by_what_would_change_it(acls: Quorate) -> None:
    assert explained(acls) == (False, "DefaultDeny", "an ACL that allows it")
    acls.output(
        "acls", "add", *ANN, "--operation", "read", "--topic", "or", "--resource-pattern-type", "prefixed"
    )
    assert explained(acls)[:2] == (True, "MatchingAcl")
    assert explained(acls, operation="describe")[0]
    assert not explained(acls, operation="write")[0]
    text = acls.output(
        "acls", "explain", "--principal", "User:ann", "--operation", "read", "--topic", "orders"
    )
    assert text.startswith(
        "allowed: by StandardAcl(resourceType=TOPIC, resourceName=or, patternType=PREFIXED,"
    )
    assert "to change it: an ACL that denies it, or no ACL that allows it" in text
    acls.output("acls", "add", "--deny-principal", "User:*", "--deny-host", "10.0.0.7", "--topic", "*")
    assert explained(acls)[0], "from no particular host"
    allowed, rule, changes = explained(acls, "--topic", "orders", "--host", "::ffff:10.0.0.7")
    assert (allowed, rule) == (False, "MatchingAcl")
    assert "another that allows it changes nothing / this one is for everybody" in changes


def test_an_explanation_goes_by_the_settings_of_the_cluster(acls: Quorate, settings: dict[str, str]) -> None:
    settings |= {"super.users": "User:root; User:ann", "allow.everyone.if.no.acl.found": "true"}
    assert explained(acls)[:2] == (True, "SuperUser")
    settings["super.users"] = "User:root"
    allowed, rule, changes = explained(acls)
    assert (allowed, rule) == (True, "DefaultAllow")
    assert "any ACL whose pattern means the resource, for whomever" in changes
    acls.output("acls", "add", "--allow-principal", "User:bob", "--topic", "*")
    allowed, rule, changes = explained(acls)
    assert (allowed, rule) == (False, "DefaultDeny")
    assert "1 do, such as StandardAcl(resourceType=TOPIC, resourceName=*" in changes


def test_an_earlier_decision_is_explained_from_a_folder(
    quorate: Quorate, acls: Quorate, node: AclNode, tmp_path: Path
) -> None:
    acls.output("acls", "add", *ANN, "--topic", "orders")
    folder = MetadataFolder(tmp_path)
    folder.append()
    folder.append(*node.image.records())
    folder.write()
    acls.output("acls", "remove", *ANN, "--topic", "orders")
    assert explained(quorate, "--topic", "orders", "--data", str(tmp_path))[:2] == (True, "MatchingAcl")
    assert explained(quorate, "--topic", "orders", "--data", str(tmp_path), "--offset", "0")[:2] == (
        False,
        "DefaultDeny",
    )
    root = ("--topic", "x", "--data", str(tmp_path), "--super-users", "User:ann")
    assert explained(quorate, *root)[:2] == (True, "SuperUser")


def since(quorate: Quorate, folder: Path, *words: str) -> tuple[bool, dict[str, Any]]:
    asked = ("--principal", "User:ann", "--operation", "read", "--topic", "orders", "--since")
    found = quorate.json("acls", "explain", *asked, "--data", str(folder), *words)
    told = found["since"]
    return found["allowed"], told | {"added": rows(told["added"]), "removed": rows(told["removed"])}


READ_ORDERS = "TOPIC orders LITERAL User:ann ALLOW READ *"


def changed_often(folder: MetadataFolder) -> None:
    """Read of orders is allowed at offset 2, and denied at 5."""

    def entry(number: int, **fields: Any) -> AccessControlEntry:
        values = {"principal": "User:ann", "permission": AclPermission.ALLOW, "name": "orders"} | fields
        acl = Acl(
            resource_type=ResourceType.TOPIC,
            pattern=PatternType.LITERAL,
            host="*",
            operation=AclOperation.READ,
            **values,
        )
        return AccessControlEntry(id=uuid.UUID(int=number), acl=acl)

    folder.append()
    folder.append(entry(1, name="logs"))
    folder.append(entry(2), entry(3, name="x"))
    folder.append(entry(4, principal="User:bob"))
    folder.append(RemoveAccessControlEntry(id=uuid.UUID(int=2)), entry(5, principal="User:carol"))
    folder.append(entry(6, principal="User:bob", permission=AclPermission.DENY))


def test_the_log_says_since_when_a_request_is_denied_and_by_which_change(
    quorate: Quorate, tmp_path: Path
) -> None:
    folder = MetadataFolder(tmp_path)
    changed_often(folder)
    folder.write()
    allowed, told = since(quorate, tmp_path)
    assert not allowed
    assert (told["changed"], told["offset"], told["timestampMs"]) == (True, 5, folder.time_of(5))
    assert (told["added"], told["removed"]) == ([], [READ_ORDERS])
    allowed, told = since(quorate, tmp_path, "--offset", "4")
    assert (allowed, told["offset"], told["added"], told["removed"]) == (True, 2, [READ_ORDERS], [])
    allowed, told = since(quorate, tmp_path, "--offset", "1")
    assert (allowed, told["changed"], told["offset"]) == (False, False, 0)
    text = quorate.output(
        *("acls", "explain", "--principal", "User:ann", "--operation", "read", "--topic", "orders"),
        *("--since", "--data", str(tmp_path)),
    )
    assert "denied: no ACL allows it\nsince offset 5 (20" in text
    assert "  removed: User:ann may READ TOPIC orders\n" in text


@pytest.mark.bug("Kafka MatchingRuleBuilder.hasResourceAcls")
def test_an_acl_for_others_is_named_where_it_closed_a_resource(quorate: Quorate, tmp_path: Path) -> None:
    folder = MetadataFolder(tmp_path)
    changed_often(folder)
    folder.write()
    open_to_all = ("--allow-everyone-if-no-acl-found", "--offset")
    allowed, told = since(quorate, tmp_path, *open_to_all, "1")
    assert (allowed, told["changed"]) == (True, False)
    allowed, told = since(quorate, tmp_path, *open_to_all, "7")
    assert (allowed, told["offset"], told["removed"]) == (False, 5, [READ_ORDERS])
    assert told["added"] == ["TOPIC orders LITERAL User:carol ALLOW READ *"]


def test_a_decision_that_is_older_than_the_history_says_so(quorate: Quorate, tmp_path: Path) -> None:
    folder = MetadataFolder(tmp_path)
    changed_often(folder)
    folder.snapshot(4)
    folder.write(start=4)
    allowed, told = since(quorate, tmp_path, "--offset", "4")
    assert (allowed, told["changed"], told["offset"], told["timestampMs"]) == (
        *(True, False, 4),
        folder.time_of(3),
    )
    assert since(quorate, tmp_path)[1]["offset"] == 5
    text = quorate.output(
        *("acls", "explain", "--principal", "User:ann", "--operation", "read", "--topic", "orders"),
        *("--since", "--offset", "4", "--data", str(tmp_path)),
    )
    assert "since before offset 4 (20" in text


@pytest.mark.slow
def test_a_cluster_is_compared_with_a_file_by_commands_that_make_them_equal(
    acls: Quorate, tmp_path: Path
) -> None:
    acls.output("acls", "add", *ANN, "--operation", "read", "--topic", "orders", "--topic", "a b")
    deny = ("--deny-principal", "User:CN=x,O=a b", "--deny-host", "10.0.0.7")
    acls.output("acls", "add", *deny, "--topic", "or", *PREFIXED)
    acls.output("acls", "add", *ANN, "--operation", "describe-configs", "--cluster")
    file = tmp_path / "acls.json"
    wanted = acls.json("acls", "list")
    file.write_text(json.dumps(wanted))
    assert acls.json("acls", "check", str(file)) == {"missing": [], "surplus": []}
    acls.output("acls", "remove", "--deny-principal", "User:CN=x,O=a b", "--topic", "or", *PREFIXED)
    acls.output("acls", "remove", *ANN, "--operation", "describe-configs", "--cluster")
    acls.output("acls", "add", *ANN, "--operation", "write", "--topic", "orders")
    acls.output("acls", "add", *ANN, "--operation", "write", "--topic", "orders", "--allow-host", "10.0.0.8")
    result = acls("acls", "check", str(file))
    assert result.exit_code == ExitCode.FAILED
    assert f"2 ACLs are missing, 2 are not in {file}" in result.stderr
    commands = result.stdout.splitlines()
    assert commands == [
        "quorate acls add --deny-principal 'User:CN=x,O=a b' --deny-host 10.0.0.7 --operation all --topic or "
        "--resource-pattern-type prefixed",
        "quorate acls add --allow-principal User:ann --operation describe-configs --cluster",
        "quorate acls remove --allow-principal User:ann --allow-host '*' --operation write --topic orders",
        "quorate acls remove --allow-principal User:ann --allow-host 10.0.0.8 --operation write --topic "
        "orders",
    ]
    for each in commands:
        acls.output(*shlex.split(each)[1:])
    assert acls.json("acls", "list") == wanted
    assert acls("acls", "check", str(file)).exit_code == ExitCode.OK


ENTRY = {
    "host": "*",
    "operation": "READ",
    "patternType": "LITERAL",
    "permissionType": "ALLOW",
    "principal": "User:ann",
    "resourceName": "orders",
    "resourceType": "TOPIC",
}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[", "is no JSON: "),
        ("{}", "is no list of ACLs; quorate acls list --json writes one"),
        ("[1]", "entry 0 needs exactly the fields resourceType, resourceName"),
        (json.dumps([ENTRY, {"host": "*"}]), "entry 1 needs exactly the fields"),
        (json.dumps([ENTRY, ENTRY]), "entry 1 is there twice"),
        (json.dumps([ENTRY | {"resourceName": ""}]), "resourceName must be a text that is not empty"),
        (json.dumps([ENTRY | {"operation": "FLY"}]), "operation 'FLY' is none of ALL, READ"),
        (json.dumps([ENTRY | {"host": "localhost"}]), "'localhost' is neither an IP address nor *"),
        (json.dumps([ENTRY | {"principal": "ann"}]), "'ann' is no principal; write Type:name"),
        (json.dumps([ENTRY | {"resourceType": "CLUSTER"}]), "of a CLUSTER is kafka-cluster"),
    ],
)
def test_a_file_that_can_not_be_read_is_named_with_the_entry(
    quorate: Quorate, tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "acls.json"
    file.write_text(text)
    assert says in quorate.error("acls", "check", str(file), code=ExitCode.USAGE)


@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("USER", "kafka-acls --add --allow-principal User:ann --operation CreateTokens --user-principal x"),
        (
            "DELEGATION_TOKEN",
            "kafka-acls --add --allow-principal User:ann --operation CreateTokens --delegation-token x",
        ),
    ],
)
def test_a_resource_that_our_command_lacks_is_kafkas_commands(
    acls: Quorate, tmp_path: Path, kind: str, command: str
) -> None:
    file = tmp_path / "acls.json"
    entry = ENTRY | {"resourceType": kind, "resourceName": "x", "operation": "CREATE_TOKENS"}
    file.write_text(json.dumps([entry]))
    assert acls("acls", "check", str(file)).stdout.splitlines() == [command]


def test_acls_are_unused_until_a_decision_of_some_broker_needs_them(
    acls: Quorate, node: AclNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = StandardAuthorizer(lambda: node.image.acls, now=lambda: now), node.super_users()
    now = 10.0
    acls.output("acls", "add", *ANN, "--operation", "read", "--operation", "write", "--topic", "orders")
    acls.output("acls", "add", "--allow-principal", "User:bob", "--operation", "read", "--topic", "orders")
    monkeypatch.setattr(ann, "_super_users", frozenset({ANONYMOUS}))

    async def two(admin: Admin) -> dict[int, object]:
        await trio.lowlevel.checkpoint()
        return {1: ann, 2: bob}

    async def at(admin: Admin, address: Any) -> SimpleNamespace:
        await trio.lowlevel.checkpoint()
        node.authorizer = address
        return SimpleNamespace(send=lambda request, response: admin.call(ApiKey(request.__api_key__)))

    monkeypatch.setattr(Admin, "addresses", two)
    monkeypatch.setattr(Admin, "to", at)
    for authorizer, name in ((ann, "ann"), (bob, "bob")):
        assert authorizer.allows(
            Principal("User", name), "10.0.0.7", AclOperation.READ, ResourceType.TOPIC, "orders"
        )
    now = 3610.0
    found = acls.json("acls", "unused")
    assert rows(found["acls"]) == ["TOPIC orders LITERAL User:ann ALLOW WRITE *"]
    assert found["brokers"] == [{"broker": 1, "countedMs": 3_600_000}, {"broker": 2, "countedMs": 0}]
    text = acls.output("acls", "unused")
    assert "WRITE" in text
    assert "READ" not in text
    assert "broker 1 has decided for 1.0 hours" in text


def test_a_cluster_without_an_authorizer_has_no_unused_acls(ask: Quorate) -> None:
    assert "No Authorizer is configured; set authorizer.class.name" in ask.error("acls", "unused")


def test_a_cluster_without_an_authorizer_says_so(ask: Quorate) -> None:
    assert "No Authorizer is configured; set authorizer.class.name" in ask.error("acls", "list")
