"""Secured broker clusters from seeds: what users are allowed and denied is what a naive list of ACLs says, at
every broker and at the controller, under faults. Faults planted in the checks are found."""

from collections.abc import Iterator, Sequence

import pytest
from fresh_processes import same_in_two_processes
from planted import Plant, shown_by_a_seed

from quorate.broker.access.authorizer import Authorizer
from quorate.broker.access.scram_credentials import MetadataCredentials
from quorate.broker.access.standard_authorizer import Decision, Rule, StandardAuthorizer
from quorate.broker.apis import fetch, metadata, scram_credentials
from quorate.broker.apis.context import Broker, ServingNode
from quorate.broker.controller import permits
from quorate.broker.controller.permits import Permit
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import (
    WILDCARD,
    Acl,
    AclOperation,
    AclPermission,
    ResourceType,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import AccessControlEntry, Record
from quorate.broker.wire.exchanges import RequestContext
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.principals import Principal
from quorate.broker.wire.sasl.credentials import ScramCredential
from quorate.raft.core import Message
from quorate.raft.transport import peers, quorum_server
from quorate.raft.transport.identities import Identity, identity_at
from quorate.runtime import Stream
from quorate.types import NodeId
from tests.simulator.seeds import Subject, access_run, run_quietly

SEEDS_MAX = 60


@pytest.mark.slow
def test_users_may_do_what_the_acls_say_and_nothing_else() -> None:
    totals = run_quietly(Subject.ACCESS, range(1, 4))
    assert not totals.failures
    assert totals.seen["requests allowed"] > 50 and totals.seen["requests denied"] > 100, totals.seen_by_name


@pytest.mark.slow
def test_they_do_so_in_more_seeds_which_show_all_that_there_is() -> None:
    totals = run_quietly(Subject.ACCESS, range(4, 16))
    assert not totals.failures
    for name, least in {
        "requests allowed": 300,
        "requests denied": 800,
        "changes of rights": 70,
        "logins": 35,
        "refused logins": 15,
        "lies": 150,
        "nodes with a snapshot": 4,
        "epochs": 15,
    }.items():
        assert totals.seen[name] >= least, totals.seen_by_name
    assert totals.committed >= 50, "few changes that users asked for were made"


@pytest.mark.slow
def test_an_access_seed_has_the_same_trace_in_two_fresh_processes() -> None:
    program = "from tests.simulator.seeds import access_run; print(access_run(3).execute())"
    assert "digest=" in same_in_two_processes(program)


def writing_is_not_checked(patch: pytest.MonkeyPatch) -> None:
    may = ServingNode.may

    def lenient(
        self: ServingNode,
        context: RequestContext,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
        *,
        audited: bool = True,
    ) -> bool:
        return operation is AclOperation.WRITE or may(
            self, context, operation, resource, name, audited=audited
        )

    patch.setattr(ServingNode, "may", lenient)


def a_permission_wins_over_a_denial(patch: pytest.MonkeyPatch) -> None:
    decide = StandardAuthorizer._decide

    def allow_first(
        self: StandardAuthorizer,
        acls: AclIndex,
        who: Principal,
        host: str,
        operation: AclOperation,
        resource: ResourceType,
        name: str,
    ) -> Decision:
        for acl in acls.for_resource(resource, name, str(who)):
            if acl.permission is AclPermission.ALLOW and acl.is_for(str(who), host) and acl.covers(operation):
                return Decision(True, Rule.MATCHING_ACL, acl)
        return decide(self, acls, who, host, operation, resource, name)

    patch.setattr(StandardAuthorizer, "_decide", allow_first)


def decisions_outlive_the_acls(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StandardAuthorizer, "_current", lambda self: self._acls())


def a_repeated_fetch_may_read_what_it_might_once(patch: pytest.MonkeyPatch) -> None:
    known: dict[tuple[int, object], bool] = {}

    def allows(self: fetch._Permission, topic: object) -> bool:
        key = id(self._context.connection), topic
        if key not in known:
            known[key] = self._decide(topic)  # type: ignore[arg-type]
        return known[key]

    patch.setattr(fetch._Permission, "allows", allows)


def every_topic_is_listed(patch: pytest.MonkeyPatch) -> None:
    may_describe = metadata._may_describe

    def lenient(broker: Broker, context: RequestContext, name: str, *, audited: bool = True) -> bool:
        return not audited or may_describe(broker, context, name)

    patch.setattr(metadata, "_may_describe", lenient)


def the_controller_does_not_ask_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Permit, "is_needed", False)


def ids_are_not_compared_with_certificates(patch: pytest.MonkeyPatch) -> None:
    def believe(message: Message, node: NodeId | None) -> None:
        pass

    for module in (quorum_server, peers):
        patch.setattr(module, "check_claims", believe)


def a_certificate_of_any_cluster_will_do(patch: pytest.MonkeyPatch) -> None:
    def of_any(stream: Stream, cluster_id: str) -> Identity | None:
        return identity_at(stream, "")

    patch.setattr(quorum_server, "identity_at", of_any)


def clients_are_served_where_nodes_are(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quorum_server, "node_at", lambda stream, cluster_id: None)


def snapshots_have_no_acls(patch: pytest.MonkeyPatch) -> None:
    records = MetadataImage.records

    def without(self: MetadataImage) -> Iterator[Record]:
        return (each for each in records(self) if not isinstance(each, AccessControlEntry))

    patch.setattr(MetadataImage, "records", without)


def acls_of_one_address_are_for_all(patch: pytest.MonkeyPatch) -> None:
    def is_for(self: Acl, principal: str, host: str) -> bool:
        return self.principal in (principal, f"User:{WILDCARD}")

    patch.setattr(Acl, "is_for", is_for)


def whoever_may_alter_the_cluster_may_become_a_super_user(patch: pytest.MonkeyPatch) -> None:
    def let(authorizer: Authorizer, who: Principal, users: object) -> None:
        pass

    for module in (scram_credentials, permits):
        patch.setattr(module, "check_super_users", let)


def a_broker_keeps_the_first_password_that_it_heard_of(patch: pytest.MonkeyPatch) -> None:
    credential = MetadataCredentials.credential
    kept: dict[tuple[int, str], ScramCredential] = {}

    def stale(self: MetadataCredentials, user: str, mechanism: SaslMechanism) -> ScramCredential | None:
        found = credential(self, user, mechanism)
        if found is not None:
            kept.setdefault((id(self), user), found)
        return kept.get((id(self), user))

    patch.setattr(MetadataCredentials, "credential", stale)


DECISIONS = "DecisionsAreThoseOfTheAcls"
PLANTS: Sequence[tuple[Plant, str, int]] = (
    (writing_is_not_checked, f"{DECISIONS}.*allowed Produce", 1),
    (a_permission_wins_over_a_denial, f"{DECISIONS}|NothingForbidden", 1),
    (decisions_outlive_the_acls, f"{DECISIONS}|NothingForbidden", 1),
    (a_repeated_fetch_may_read_what_it_might_once, f"{DECISIONS}.*Fetch", 2),
    (every_topic_is_listed, f"{DECISIONS}.*the sight of", 1),
    (the_controller_does_not_ask_again, "NothingForbiddenIsBehindARevocation", 9),
    (ids_are_not_compared_with_certificates, "OutsidersAreNotHeard|two leaders in one epoch", 1),
    (a_certificate_of_any_cluster_will_do, "OutsidersAreNotHeard|two leaders in one epoch", 2),
    (clients_are_served_where_nodes_are, "OutsidersAreNotHeard|two leaders in one epoch", 3),
    (snapshots_have_no_acls, f"{DECISIONS}|AcknowledgedRights|is removed, but is not there", 1),
    (acls_of_one_address_are_for_all, f"{DECISIONS}|NothingForbidden", 1),
    (
        whoever_may_alter_the_cluster_may_become_a_super_user,
        "password of a super user|the super user's password",
        4,
    ),
    (a_broker_keeps_the_first_password_that_it_heard_of, "LoginsAreThoseOfTheUsers", 3),
)


@pytest.mark.slow
@pytest.mark.parametrize(("plant", "expected", "first"), PLANTS, ids=[plant.__name__ for plant, *_ in PLANTS])
def test_a_seed_shows_that(plant: Plant, expected: str, first: int) -> None:
    shown_by_a_seed(
        plant, lambda seed: access_run(seed).execute(), expected=expected, first=first, seeds_max=SEEDS_MAX
    )
