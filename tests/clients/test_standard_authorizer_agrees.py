"""Our authorizer beside Kafka's own: the same ACLs, the same questions, 100,000 decisions.

Kafka's is the class of Kafka's jars, in a JVM. Differences that are meant are in docs/compatibility.md, and
have tests of their own below.
"""

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest
from kafka_authorizer import (
    ANN,
    KafkaAuthorizer,
    Question,
    Scenario,
    drawn_scenario,
    kafka_authorizer,
    our_answers,
    shrunk,
)

from quorate.broker.metadata.acls import Acl, AclOperation, AclPermission, PatternType, ResourceType
from quorate.broker.wire.principals import Principal

pytestmark = [pytest.mark.clients, pytest.mark.slow]

SCENARIOS, ROUNDS, QUESTIONS = 250, 5, 80
SEED = "QUORATE_AUTHORIZER_SEED"
"""The environment variable that names the seed to draw again."""
RULES = {
    *("SuperUser, True", "MatchingAcl, True", "MatchingAcl, False", "DefaultAllow, True"),
    *("DefaultDeny, False", "some, True", "some, False"),
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaAuthorizer]:
    with kafka_authorizer() as found:
        yield found


def test_a_hundred_thousand_decisions_are_those_of_kafkas_authorizer(kafka: KafkaAuthorizer) -> None:
    seed = int(os.environ.get(SEED) or secrets.randbits(32))
    random = Random(seed)
    rules = Counter[str]()
    for _ in range(SCENARIOS):
        scenario = drawn_scenario(random, rounds=ROUNDS, questions=QUESTIONS)
        theirs, ours = kafka.answers([scenario]), our_answers(scenario, lambda rule: rules.update([rule]))
        assert len(theirs) == len(ours) == ROUNDS * QUESTIONS
        if theirs != ours:
            first = next(at for at, (a, b) in enumerate(zip(theirs, ours, strict=True)) if a != b)
            small = shrunk(kafka, scenario, first)
            raise AssertionError(
                f"{SEED}={seed}: Kafka says {kafka.answers([small])[-1]}, we {our_answers(small)[-1]}, "
                f"allowed or denied, at the end of\n  " + "\n  ".join(small.lines())
            )
    assert sum(rules.values()) == 100_000
    # Each rule decides often enough that a wrong one would be seen.
    assert rules.keys() == RULES, rules
    assert min(rules.values()) > 1_000, rules


def alone(acl: Acl, *, host: str, who: Principal = ANN) -> Scenario:
    asked = Question(who, host, AclOperation.READ, ResourceType.TOPIC, "t")
    return Scenario(False, (), ((1, acl),), (asked,))


def acl(*, principal: str = "User:ann", host: str = "*") -> Acl:
    return Acl(
        resource_type=ResourceType.TOPIC,
        name="t",
        pattern=PatternType.LITERAL,
        principal=principal,
        host=host,
        operation=AclOperation.READ,
        permission=AclPermission.ALLOW,
    )


@pytest.mark.parametrize("host", ["2001:db8::1", "2001:DB8::1", "2001:db8:0:0:0:0:0:1"])
def test_an_ipv6_host_has_one_form_for_kafka_and_any_for_us(kafka: KafkaAuthorizer, host: str) -> None:
    scenario = alone(acl(host=host), host="2001:db8::1")
    as_java_writes_it = host == "2001:db8:0:0:0:0:0:1"
    assert kafka.answers([scenario]) == ("A" if as_java_writes_it else "D")
    assert our_answers(scenario) == "A"


def test_an_acl_of_a_principal_without_a_type_is_nobodys_here_and_ends_kafkas_decisions() -> None:
    scenario = alone(acl(principal="ann"), host="10.0.0.7")
    assert our_answers(scenario) == "D"
    assert_throws(scenario, "Could not parse principal from `ann`")


def test_a_user_whose_name_is_a_star_is_one_of_all_here_and_ends_kafkas_decisions() -> None:
    star = Principal("User", "*")
    everybody, ann = (
        alone(acl(principal=each), host="10.0.0.7", who=star) for each in ("User:*", "User:ann")
    )
    assert (our_answers(everybody), our_answers(ann)) == ("A", "D")
    assert_throws(ann, "duplicate element: User:\\*")


def assert_throws(scenario: Scenario, says: str) -> None:
    with kafka_authorizer() as kafka, pytest.raises(RuntimeError, match=says):
        kafka.answers([scenario])


@pytest.mark.parametrize("permission", AclPermission)
def test_every_resource_is_also_one_whose_name_begins_with_a_star_here(
    kafka: KafkaAuthorizer, permission: AclPermission
) -> None:
    every = replace(acl(), resource_type=ResourceType.GROUP, name="*", permission=permission)
    asked = [
        Question(ANN, "10.0.0.7", AclOperation.READ, ResourceType.GROUP, name) for name in ("a", "*", "*a")
    ]
    # Where no ACL decides, the opposite of what the ACL says is the answer.
    scenario = Scenario(permission is AclPermission.DENY, (), ((1, every),), tuple(asked))
    kafkas = {AclPermission.DENY: "DDA", AclPermission.ALLOW: "AAD"}
    assert kafka.answers([scenario]) == kafkas[permission]
    assert our_answers(scenario) == ("DDD" if permission is AclPermission.DENY else "AAA")
