"""Kafka's own StandardAuthorizer in a JVM, and scenarios of ACLs and questions for it and for ours."""

import importlib
import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from documents import ROOT

from quorate.broker.access.standard_authorizer import StandardAuthorizer
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
    canonical_host,
)
from quorate.broker.wire.principals import Principal

ANN, BOB, ROOT_USER = Principal("User", "ann"), Principal("User", "bob"), Principal("User", "CN=root,O=x")
ASKERS = (ANN, BOB, ROOT_USER, Principal("User", "Ann"), Principal("Group", "ann"), Principal("Group", "*"))
OF_ACLS = ("User:ann", "User:bob", "User:*", "User:CN=root,O=x", "Group:ann", "Group:*", "User:a:b")
HOSTS = ("10.0.0.7", "10.0.0.8", "2001:db8:0:0:0:0:0:1")
"""As Java writes addresses: the hosts of Kafka's ACLs are compared with that as text."""
NAMES = ("a", "ab", "abc", "abd", "b", "ba", "a-", "B", "*", "*a", "\U0001f600", "\ufb01x")
"""The last two compare one way as UTF-16 and the other way as code points."""
ASKED = (*NAMES[:-3], *NAMES[-2:], "abca", "c", "zz", "\U0001f600x")
OPERATIONS = tuple(AclOperation)
CONCRETE = tuple(each for each in AclOperation if each is not AclOperation.ALL)


@dataclass(frozen=True, slots=True)
class Question:
    """May `who` do it? `name`: None with some resource of the type."""

    who: Principal
    host: str
    operation: AclOperation
    resource: ResourceType
    name: str | None

    def line(self) -> str:
        words = ["some" if self.name is None else "ask", self.who.kind, self.who.name, self.host]
        words += [self.operation.name, self.resource.name, *([] if self.name is None else [self.name])]
        return "\t".join(words)


@dataclass(frozen=True, slots=True)
class Change:
    """An ACL is added, or removed."""

    acl_id: int
    acl: Acl | None
    """None: it is removed."""

    def line(self) -> str:
        return f"remove\t{self.acl_id}" if self.acl is None else _acl_line("add", self.acl_id, self.acl)


@dataclass(frozen=True, slots=True)
class Scenario:
    """An authorizer with its settings, the ACLs of its snapshot, and what comes after."""

    everyone: bool
    super_users: tuple[Principal, ...]
    snapshot: tuple[tuple[int, Acl], ...]
    steps: tuple[Change | Question, ...]

    @property
    def questions(self) -> list[Question]:
        return [each for each in self.steps if isinstance(each, Question)]

    def lines(self) -> Iterator[str]:
        yield f"new\t{str(self.everyone).lower()}\t{';'.join(map(str, self.super_users))}"
        for acl_id, acl in self.snapshot:
            yield _acl_line("hold", acl_id, acl)
        yield "load"
        for each in self.steps:
            yield each.line()


def _acl_line(word: str, acl_id: int, acl: Acl) -> str:
    resource = (acl.resource_type.name, acl.name, acl.pattern.name)
    whom = (acl.principal, acl.host, acl.operation.name, acl.permission.name)
    return "\t".join((word, str(acl_id), *resource, *whom))


class KafkaAuthorizer:
    """The JVM (scripts/kafka_tools/java/AuthorizerDecisions.java)."""

    def __init__(self, process: "subprocess.Popen[str]", said: Any) -> None:
        self._process = process
        self._said = said

    def answers(self, scenarios: Iterable[Scenario]) -> str:
        """Return A or D for each question, in order."""
        assert self._process.stdin is not None and self._process.stdout is not None
        lines = [line for scenario in scenarios for line in scenario.lines()]
        answer = ""
        with suppress(BrokenPipeError):
            self._process.stdin.write("\n".join([*lines, "end", ""]))
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        if not answer:
            self._said.seek(0)
            raise RuntimeError(f"Kafka's authorizer has ended: {self._said.read().decode()[-2000:]}")
        return answer.rstrip("\n")


@contextmanager
def kafka_authorizer() -> Iterator[KafkaAuthorizer]:
    """Start the JVM. Skips the test where Kafka's jars are not to be had."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "scripts" / "kafka_tools")
        jars, host = importlib.import_module("jars"), importlib.import_module("tool_host")
    try:
        path = jars.class_path()
    except jars.CantRunHereError as why:
        pytest.skip(str(why))
    command = ["java", *host.JAVA_OPTIONS, *host.LOGGING, "-cp", path, "AuthorizerDecisions"]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, encoding="utf-8"
        )
        assert process.stdin is not None and process.stdout is not None
        try:
            yield KafkaAuthorizer(process, said)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
            with suppress(BrokenPipeError):
                process.stdin.close()


def our_answers(scenario: Scenario, count: Callable[[str], object] = lambda rule: None) -> str:
    """Return what ours decides. `count` gets the rule of each decision."""
    index = AclIndex()

    def add(acl_id: int, acl: Acl) -> None:
        # As CreateAcls does.
        index.add(uuid.UUID(int=acl_id), replace(acl, host=canonical_host(acl.host)))

    for acl_id, acl in scenario.snapshot:
        add(acl_id, acl)
    ours = StandardAuthorizer(
        lambda: index,
        super_users=scenario.super_users,
        allow_everyone_if_no_acl=scenario.everyone,
        now=lambda: 0.0,
    )
    found: list[str] = []
    for each in scenario.steps:
        if isinstance(each, Question):
            if each.name is None:
                allowed = ours.allows_some(each.who, each.host, each.operation, each.resource)
                count(f"some, {allowed}")
            else:
                decision = ours.decide(each.who, each.host, each.operation, each.resource, each.name)
                allowed = decision.allowed
                count(f"{decision.rule.value}, {allowed}")
            found.append("A" if allowed else "D")
        elif each.acl is None:
            index.remove(uuid.UUID(int=each.acl_id))
        else:
            add(each.acl_id, each.acl)
    return "".join(found)


def drawn_scenario(random: Random, *, rounds: int, questions: int) -> Scenario:
    """Draw settings, ACLs and, in each round, changes and then questions. `questions`: of a round."""
    # Few ACLs leave more to the default, many deny almost everything.
    most = random.choice((1, 3, 8, 30))
    denials = random.choice((0.0, 0.1, 0.4))
    held: dict[int, Acl] = {}
    next_id = 0

    def fresh() -> tuple[int, Acl] | None:
        nonlocal next_id
        acl = _drawn_acl(random, denials)
        if held and denials and random.random() < 0.2:
            # One that says the opposite of another. Drawn at random, few do.
            other = random.choice([*held.values()])
            turned = AclPermission.ALLOW if other.permission is AclPermission.DENY else AclPermission.DENY
            acl = replace(other, permission=turned)
        if acl in held.values():
            return None
        next_id += 1
        held[next_id] = acl
        return next_id, acl

    snapshot = tuple(drawn for _ in range(random.randint(0, most)) if (drawn := fresh()))
    steps: list[Change | Question] = []
    for number in range(rounds):
        for _ in range(random.randint(1, most) if number else 0):
            if held and random.random() < 0.5:
                removed = random.choice([*held])
                del held[removed]
                steps.append(Change(removed, None))
            elif drawn := fresh():
                steps.append(Change(*drawn))
        steps += (_drawn_question(random, [*held.values()]) for _ in range(questions))
    super_users = random.choice(((), (), (ROOT_USER,), (BOB, Principal("User", "Ann"))))
    return Scenario(random.random() < 0.5, super_users, snapshot, tuple(steps))


def _drawn_acl(random: Random, denials: float) -> Acl:
    kind = random.choice((ResourceType.TOPIC, ResourceType.TOPIC, *ResourceType))
    if kind is ResourceType.CLUSTER:
        pattern, name = PatternType.LITERAL, random.choice((CLUSTER_NAME, CLUSTER_NAME, "*"))
    else:
        pattern, name = random.choice(tuple(PatternType)), random.choice(NAMES)
    return Acl(
        resource_type=kind,
        name=name,
        pattern=pattern,
        principal=random.choice(OF_ACLS),
        host=random.choice(("*", "*", *HOSTS)),
        operation=random.choice((AclOperation.ALL, AclOperation.READ, AclOperation.WRITE, *OPERATIONS)),
        permission=AclPermission.DENY if random.random() < denials else AclPermission.ALLOW,
    )


def _drawn_question(random: Random, held: Sequence[Acl]) -> Question:
    who, host = random.choice(ASKERS), random.choice(HOSTS)
    operation, resource = random.choice(CONCRETE), random.choice(tuple(ResourceType))
    name: str | None = random.choice(ASKED)
    if held and random.random() < 0.6:
        # Questions that an ACL might be about. Drawn at random, few are.
        near = random.choice(held)
        resource = near.resource_type
        if near.operation is not AclOperation.ALL and random.random() < 0.7:
            operation = near.operation
        elif random.random() < 0.3:
            operation = random.choice((AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS))
        name = near.name + random.choice(("", "", "a", "x"))
        if near.host != "*" and random.random() < 0.7:
            host = near.host
        kind, _, own = near.principal.partition(":")
        if own != "*" and random.random() < 0.7:
            who = Principal(kind, own)
        if name.startswith("*"):
            name = "*"  # of longer ones Kafka has another opinion, see the tests of differences
    if random.random() < 0.2:
        name = None
    elif resource is ResourceType.CLUSTER:
        name = CLUSTER_NAME
    return Question(who, host, operation, resource, name)


def differs(kafka: KafkaAuthorizer, scenario: Scenario) -> bool:
    """Return whether the last answers differ."""
    return kafka.answers([scenario])[-1:] != our_answers(scenario)[-1:]


def shrunk(kafka: KafkaAuthorizer, scenario: Scenario, question: int) -> Scenario:
    """Return the smallest scenario that still differs at the question with this number: a part of it, with
    the ACLs that are left."""
    places = [at for at, each in enumerate(scenario.steps) if isinstance(each, Question)]
    asked = scenario.steps[places[question]]
    small = replace(scenario, steps=scenario.steps[: places[question] + 1])
    alone = dict(small.snapshot)
    for each in small.steps:
        if isinstance(each, Change):
            if each.acl is None:
                del alone[each.acl_id]
            else:
                alone[each.acl_id] = each.acl
    at_once = replace(small, snapshot=tuple(alone.items()), steps=(asked,))
    if differs(kafka, at_once):
        small = at_once  # it does not take the changes
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(small):
            if differs(kafka, candidate):
                small, smaller = candidate, True
                break
    return small


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield the scenarios that have one thing less."""
    for acl_id in dict.fromkeys(
        [
            *(each for each, _ in scenario.snapshot),
            *(each.acl_id for each in scenario.steps if isinstance(each, Change)),
        ]
    ):
        yield replace(
            scenario,
            snapshot=tuple(each for each in scenario.snapshot if each[0] != acl_id),
            steps=tuple(
                each for each in scenario.steps if isinstance(each, Question) or each.acl_id != acl_id
            ),
        )
    for at, each in enumerate(scenario.steps[:-1]):
        if isinstance(each, Question):
            yield replace(scenario, steps=scenario.steps[:at] + scenario.steps[at + 1 :])
    for user in scenario.super_users:
        others = tuple(each for each in scenario.super_users if each != user)
        yield replace(scenario, super_users=others)
    if scenario.everyone:
        yield replace(scenario, everyone=False)
