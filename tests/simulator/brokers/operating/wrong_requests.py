"""Requests that operators get wrong, and requests that only validate: each has its error code, and changes
nothing."""

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode

from quorate.broker.admin import brokers, topics
from quorate.broker.admin.admin_client import AdminClient
from quorate.broker.admin.topics import NewTopic
from quorate.broker.metadata.metadata_records import ConfigType, QuotaEntity
from quorate.broker.metadata.quota_precedence import PRODUCER_BYTE_RATE
from quorate.broker.metadata.states import ConfigResource
from quorate.broker.metadata.supported_features import KRAFT_VERSION, METADATA_VERSION
from quorate.simulation.violations import SafetyViolation
from tests.simulator.administration.admin_history import Answer
from tests.simulator.administration.intents import nothing
from tests.simulator.brokers.one_broker import reassign_partition
from tests.simulator.brokers.operating import operator_requests as requests
from tests.simulator.brokers.operating.operator_client import Counted, OperatorClient, OwnTopic

_NOBODY: Final = 77
"""An id that no broker has."""
_NO_TOPIC: Final = "op-none"
_BY_NOTHING: Final = "by nothing"

Send = Callable[[AdminClient], Awaitable[object]]


async def ask_wrongly(operator: OperatorClient) -> None:
    """Send a wrong request, which must be refused as Kafka refuses it, or only validate a right one."""
    topic = operator.some_topic(lambda topic: topic.counted is Counted.SURE and topic.once)
    cases = wrong_creations(operator.new_name()) | (wrong_in_general() if topic is None else wrong_of(topic))
    what = operator.random.choice(list(cases))
    expected, send = cases[what]
    answer, code = await operator.ask(nothing(what), send)
    if code is ErrorCode.throttling_quota_exceeded:
        return  # the operator is above its controller_mutation_rate, whatever it asks for
    if code is ErrorCode.invalid_replication_factor and operator.budget.is_one_unregistered:
        return  # there may be fewer brokers than replicas
    if what.endswith(_BY_NOTHING) and code is ErrorCode.none:
        return  # it was passed on twice: without the first answer, it may be what the first has done
    if answer is not Answer.UNKNOWN and code is not expected:
        operator.cluster.found(
            "Administration",
            SafetyViolation(
                f"WrongRequestsAreRefused: {operator.name}: {what}: answered with {code and code.name}, not "
                f"{expected.name}"
            ),
        )


Cases = dict[str, tuple[ErrorCode, Send]]
"""Requests by their description, each with the error code that its answer must have."""


def wrong_creations(name: str) -> Cases:
    """Wrong requests for a topic of that name, and one that is right and only validates, with the code of
    each."""
    right = NewTopic(name=name, partitions=1, replication_factor=2)
    bare = NewTopic(name=name)
    wrong = {
        ErrorCode.invalid_replica_assignment: {
            "an unknown broker": replace(bare, assignment=[[1, _NOBODY]]),
            "a broker twice": replace(bare, assignment=[[1, 1]]),
            "no replicas": replace(bare, assignment=[[1, 2], []]),
            "partitions of different factors": replace(bare, assignment=[[1, 2], [1]]),
        },
        ErrorCode.invalid_partitions: {"no partitions": replace(right, partitions=0)},
        ErrorCode.invalid_replication_factor: {
            "a replication factor of 0": replace(right, replication_factor=0),
            "more replicas than brokers": replace(right, replication_factor=99),
        },
        ErrorCode.invalid_request: {
            "numbers beside an assignment": replace(bare, partitions=1, assignment=[[1, 2]]),
        },
        ErrorCode.invalid_config: {
            "an unknown config": replace(right, configs={"no.such.key": "1"}),
            "a bad value of a config": replace(right, configs={"retention.ms": "soon"}),
        },
        ErrorCode.invalid_topic_exception: {
            "a bad name": replace(right, name=f"{name}?"),
            "a name that is too long": replace(right, name=name + 250 * "x"),
        },
    }
    cases = {
        f"create {name} with {what}": (code, _creation(topic))
        for code, wrong_topics in wrong.items()
        for what, topic in wrong_topics.items()
    }
    cases[f"validate {name}"] = (ErrorCode.none, _creation(replace(right, partitions=3), validate_only=True))
    return cases


def _creation(topic: NewTopic, *, validate_only: bool = False) -> Send:
    return partial(requests.create_topic, topic=topic, validate_only=validate_only)


def wrong_in_general() -> Cases:
    """Wrong requests that need no topic."""
    missing = ErrorCode.unknown_topic_or_partition
    nobody = ConfigResource(ConfigType.BROKER, str(_NOBODY))
    client = QuotaEntity(client_id=_NO_TOPIC)
    return {
        "delete a topic that is not there": (missing, partial(topics.delete_topic, topic=_NO_TOPIC)),
        "delete an id that is not there": (
            ErrorCode.unknown_topic_id,
            partial(topics.delete_topic, topic=uuid.UUID(int=_NOBODY)),
        ),
        "grow a topic that is not there": (
            missing,
            partial(topics.create_partitions, topic=_NO_TOPIC, count=3),
        ),
        "reassign a topic that is not there": (
            missing,
            partial(reassign_partition, name=_NO_TOPIC, partition_id=0, target=(1, 2)),
        ),
        "elect a leader of a topic that is not there": (
            missing,
            partial(requests.elect_leader, name=_NO_TOPIC, partition_id=0),
        ),
        "configure a topic that is not there": (
            missing,
            partial(
                requests.alter_configs,
                resource=ConfigResource(ConfigType.TOPIC, _NO_TOPIC),
                changes={"retention.ms": "1"},
            ),
        ),
        "configure an unknown broker": (
            ErrorCode.invalid_request,
            partial(
                requests.alter_configs, resource=nobody, changes={"producer.id.expiration.ms": "86400000"}
            ),
        ),
        "a quota of 0": (
            ErrorCode.invalid_request,
            partial(requests.alter_quota, entity=client, changes={PRODUCER_BYTE_RATE: 0.0}),
        ),
        "an unknown quota": (
            ErrorCode.invalid_request,
            partial(requests.alter_quota, entity=client, changes={"bytes": 1.0}),
        ),
        "an unknown quota beside one that is known": (
            ErrorCode.invalid_request,
            partial(requests.alter_quota, entity=client, changes={PRODUCER_BYTE_RATE: 1e6, "bytes": 1.0}),
        ),
        "validate a quota": (
            ErrorCode.none,
            partial(
                requests.alter_quota, entity=client, changes={PRODUCER_BYTE_RATE: 1e6}, validate_only=True
            ),
        ),
        "a version of metadata that is not known": (
            ErrorCode.invalid_update_version,
            partial(requests.update_feature, feature=METADATA_VERSION, level=99),
        ),
        "a version of metadata that nobody supports any more": (
            ErrorCode.invalid_update_version,
            partial(requests.update_feature, feature=METADATA_VERSION, level=0),
        ),
        "a feature that is not known": (
            ErrorCode.invalid_update_version,
            partial(requests.update_feature, feature="no.such.feature", level=1),
        ),
        "a level that the quorum does not know": (
            ErrorCode.invalid_update_version,
            partial(requests.update_feature, feature=KRAFT_VERSION, level=2),
        ),
        "validate the voters in the log": (
            ErrorCode.none,
            partial(requests.update_feature, feature=KRAFT_VERSION, level=1, validate_only=True),
        ),
        "unregister an unknown broker": (
            ErrorCode.broker_id_not_registered,
            partial(brokers.unregister_broker, broker_id=_NOBODY),
        ),
    }


def wrong_of(topic: OwnTopic) -> Cases:
    """Wrong requests for a topic that is there."""
    name = topic.name
    assignment = ErrorCode.invalid_replica_assignment
    resource = ConfigResource(ConfigType.TOPIC, name)

    def reassignment(replicas: Sequence[int]) -> Send:
        return partial(reassign_partition, name=name, partition_id=0, target=replicas)

    more = topic.partitions + 1

    def growth(count: int, *, assignment: Sequence[Sequence[int]] = (), validate_only: bool = False) -> Send:
        return partial(
            topics.create_partitions,
            topic=name,
            count=count,
            assignment=assignment,
            validate_only=validate_only,
        )

    return {
        f"create {name} again": (
            ErrorCode.topic_already_exists,
            _creation(NewTopic(name=name, partitions=1, replication_factor=2)),
        ),
        f"grow {name} {_BY_NOTHING}": (ErrorCode.invalid_partitions, growth(topic.partitions)),
        f"grow {name} to 0": (ErrorCode.invalid_partitions, growth(0)),
        f"grow {name} on an unknown broker": (assignment, growth(more, assignment=[[1, _NOBODY]])),
        f"validate the growth of {name}": (ErrorCode.none, growth(more, validate_only=True)),
        f"reassign {name} to an unknown broker": (assignment, reassignment((1, _NOBODY))),
        f"reassign {name} to a broker twice": (assignment, reassignment((1, 2, 1))),
        f"reassign {name} to nobody": (assignment, reassignment(())),
        f"reassign a partition that {name} lacks": (
            ErrorCode.unknown_topic_or_partition,
            partial(reassign_partition, name=name, partition_id=_NOBODY, target=(1, 2)),
        ),
        f"elect a leader of a partition that {name} lacks": (
            ErrorCode.unknown_topic_or_partition,
            partial(requests.elect_leader, name=name, partition_id=_NOBODY),
        ),
        f"configure {name} badly": (
            ErrorCode.invalid_config,
            partial(requests.alter_configs, resource=resource, changes={"retention.ms": "soon"}),
        ),
        f"validate a config of {name}": (
            ErrorCode.none,
            partial(
                requests.alter_configs, resource=resource, changes={"retention.ms": "-1"}, validate_only=True
            ),
        ),
    }
