"""`quorate acls`: through the requests of a node that decides by ACLs, and against a cluster without an
authorizer."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from acl_node import AclNode
from kio.schema.errors import ErrorCode
from metadata_folder import MetadataFolder

from quorate.broker.wire.api import ApiKey
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
        return await self._node.ask(key, **fields)

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


def test_the_clusters_refusal_names_the_acl(acls: Quorate) -> None:
    error = acls.error("acls", "add", *ANN, "--operation", "cluster-action", "--topic", "t")
    assert (
        "User:ann may CLUSTER_ACTION TOPIC t: A TOPIC has no operation CLUSTER_ACTION; it has READ" in error
    )


def explained(acls: Quorate, *words: str, operation: str = "read") -> tuple[bool, str, str]:
    who = ("--principal", "User:ann", "--operation", operation)
    found = acls.json("acls", "explain", *who, *(words or ("--topic", "orders")))
    return found["allowed"], found["rule"], " / ".join(found["changes"])


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


def test_a_cluster_without_an_authorizer_says_so(ask: Quorate) -> None:
    assert "No Authorizer is configured; set authorizer.class.name" in ask.error("acls", "list")
