"""AlterClientQuotas: each entity wholly or not at all. And whose quota counts for a client."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.broker.controller.operations.client_quotas import alter_client_quotas
from quorate.broker.controller.rpc import (
    AlterClientQuotasRequest,
    QuotaAlteration,
    QuotaEntityPart,
    QuotaOperation,
)
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.metadata.metadata_records import ClientQuota, QuotaEntity
from quorate.broker.metadata.quota_precedence import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    connection_rate_of,
    quota_of,
)
from quorate.error_code import ErrorCode
from tests.broker.controller.images import image_of


def alteration(entity: dict[str, str | None], **quotas: float | None) -> QuotaAlteration:
    return QuotaAlteration(
        entity=tuple(QuotaEntityPart(type=kind, name=name) for kind, name in entity.items()),
        operations=tuple(QuotaOperation(key=key, value=value) for key, value in quotas.items()),
    )


def alter(cluster, *alterations: QuotaAlteration, validate_only: bool = False) -> list[tuple[ErrorCode, str]]:
    request = AlterClientQuotasRequest(alterations=alterations, validate_only=validate_only)
    answer = cluster.do(alter_client_quotas(cluster.image, request))
    return [(each.error, each.error_message or "") for each in answer.results]


FINE = (ErrorCode.NONE, "")


def test_quotas_are_set_changed_and_removed(cluster) -> None:
    ann = QuotaEntity(user="ann")
    assert alter(cluster, alteration({"user": "ann"}, producer_byte_rate=5, consumer_byte_rate=6)) == [FINE]
    assert cluster.image.quotas(ann) == {"producer_byte_rate": 5.0, "consumer_byte_rate": 6.0}
    assert alter(cluster, alteration({"user": "ann"}, producer_byte_rate=None, consumer_byte_rate=7)) == [
        FINE
    ]
    assert cluster.image.quotas(ann) == {"consumer_byte_rate": 7.0}
    assert alter(cluster, alteration({"user": "bob"}, consumer_byte_rate=None)) == [FINE], "it is not there"


@pytest.mark.bug("KAFKA-9980")
def test_a_default_has_no_name(cluster) -> None:
    assert alter(cluster, alteration({"user": None, "client-id": "app"}, consumer_byte_rate=12)) == [FINE]
    assert cluster.image.quotas(QuotaEntity(user="", client_id="app")) == {"consumer_byte_rate": 12.0}


def test_percentages_and_rates_of_partitions_may_have_a_fraction(cluster) -> None:
    rates = alteration({"client-id": "app"}, request_percentage=0.5, controller_mutation_rate=2.5)
    assert alter(cluster, rates) == [FINE]
    held = cluster.image.quotas(QuotaEntity(client_id="app"))
    assert held == {"request_percentage": 0.5, "controller_mutation_rate": 2.5}


def test_an_image_knows_which_quotas_anybody_has(cluster) -> None:
    assert not cluster.image.has_quota(REQUEST_PERCENTAGE)
    for user in ("ann", "bob"):
        for percent in (5, 6):
            alter(cluster, alteration({"user": user}, request_percentage=percent, producer_byte_rate=1))
    for user in ("ann", "ann", "cat"):
        assert cluster.image.has_quota(REQUEST_PERCENTAGE)
        alter(cluster, alteration({"user": user}, request_percentage=None))
    assert cluster.image.copy().has_quota(REQUEST_PERCENTAGE), "bob has one"
    alter(cluster, alteration({"user": "bob"}, request_percentage=None))
    assert not cluster.image.has_quota(REQUEST_PERCENTAGE)
    assert cluster.image.has_quota(PRODUCER_BYTE_RATE)


def test_addresses_have_one_form_and_come_before_their_default() -> None:
    image = image_of(
        ClientQuota(entity=QuotaEntity(ip=ip), key=CONNECTION_CREATION_RATE, value=rate)
        for ip, rate in (("", 5.0), ("10.0.0.1", 1.0), ("::1", 2.0))
    )
    rates = [connection_rate_of(image, each) for each in ("10.0.0.1", "::1", "10.0.0.2")]
    assert rates == [1.0, 2.0, 5.0]
    assert connection_rate_of(MetadataImage(), "10.0.0.1") is None


def test_an_ip_is_stored_as_connections_show_it(cluster) -> None:
    assert alter(cluster, alteration({"ip": "0:0::1"}, connection_creation_rate=7)) == [FINE]
    assert connection_rate_of(cluster.image, "::1") == 7


def test_a_quota_that_is_held_already_takes_no_record(cluster) -> None:
    alter(cluster, alteration({"user": "ann"}, producer_byte_rate=5))
    held = len(cluster.log)
    assert alter(cluster, alteration({"user": "ann"}, producer_byte_rate=5)) == [FINE]
    assert alter(cluster, alteration({"user": "ann"}, producer_byte_rate=6), validate_only=True) == [FINE]
    assert len(cluster.log) == held


@pytest.mark.parametrize(
    ("entity", "quotas", "why"),
    [
        ({}, {"producer_byte_rate": 1}, "The entity has no parts"),
        ({"host": "a"}, {"producer_byte_rate": 1}, "'host' is none of user, client-id and ip"),
        ({"user": ""}, {"producer_byte_rate": 1}, "empty name"),
        ({"user": "a" * 5000}, {"producer_byte_rate": 1}, "more than 4096 characters"),
        ({"user": "a", "ip": "1.2.3.4"}, {"producer_byte_rate": 1}, "can't be combined"),
        ({"ip": "nowhere"}, {"connection_creation_rate": 1}, "'nowhere' is no IP address"),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 1.5}, "must be a whole number"),
        ({"ip": "1.2.3.4"}, {"connection_creation_rate": 1 << 31}, "must be at most"),
        ({"ip": None}, {"producer_byte_rate": 1}, "it may have connection_creation_rate"),
        ({"user": "a"}, {"connection_creation_rate": 1}, "is no quota of this entity"),
        ({"user": "a"}, {"controller_mutation_rate": 0}, "must be greater than 0"),
        ({"user": "a"}, {"request_percentage": float("inf")}, "must be greater than 0"),
        (
            {"user": "a"},
            {"bytes": 1},
            "may have consumer_byte_rate, controller_mutation_rate, producer_byte_rate, request_percentage",
        ),
        ({"user": "a"}, {"producer_byte_rate": 0}, "must be greater than 0"),
        ({"user": "a"}, {"producer_byte_rate": -1}, "must be greater than 0"),
        ({"user": "a"}, {"producer_byte_rate": 1.5}, "must be a whole number"),
        ({"user": "a"}, {"producer_byte_rate": 1e19}, "must be at most"),
        ({"user": "a"}, {"consumer_byte_rate": float("nan")}, "must be greater than 0"),
    ],
)
def test_a_refused_entity_is_named_with_the_reason_and_spoils_no_other(
    cluster, entity: dict[str, str | None], quotas: dict[str, float], why: str
) -> None:
    good = alteration({"client-id": "app"}, producer_byte_rate=1)
    bad = alteration(entity, **quotas)
    (error, message), fine = alter(cluster, bad, good)
    assert error is ErrorCode.INVALID_REQUEST
    assert why in message
    assert fine == FINE
    assert list(cluster.image.quota_entities()) == [QuotaEntity(client_id="app")]


def test_an_entity_or_a_quota_named_twice_is_refused(cluster) -> None:
    twice = QuotaAlteration(
        entity=(QuotaEntityPart(type="user", name="a"),),
        operations=(QuotaOperation(key="producer_byte_rate", value=1.0),) * 2,
    )
    parts = QuotaAlteration(entity=(QuotaEntityPart(type="user", name="a"), QuotaEntityPart(type="user")))
    first = alteration({"user": "b"}, producer_byte_rate=1)
    outcomes = alter(cluster, twice, parts, first, alteration({"user": "b"}, producer_byte_rate=2))
    assert [error for error, _ in outcomes] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert not cluster.image.quotas(QuotaEntity(user="b")), "neither of them"


PRECEDENCE = (
    QuotaEntity(user="ann", client_id="app"),
    QuotaEntity(user="ann", client_id=""),
    QuotaEntity(user="ann"),
    QuotaEntity(user="", client_id="app"),
    QuotaEntity(user="", client_id=""),
    QuotaEntity(user=""),
    QuotaEntity(client_id="app"),
    QuotaEntity(client_id=""),
)
"""Kafka's, the first counts."""
OTHERS = (QuotaEntity(user="bob"), QuotaEntity(client_id="tool"), QuotaEntity(user="bob", client_id="app"))


@given(st.sets(st.sampled_from(PRECEDENCE + OTHERS)), st.sets(st.sampled_from(PRECEDENCE)))
def test_the_most_specific_quota_of_a_user_comes_first(
    producing: set[QuotaEntity], consuming: set[QuotaEntity]
) -> None:
    image = image_of(
        ClientQuota(entity=entity, key=key, value=100.0 + (PRECEDENCE + OTHERS).index(entity))
        for key, entities in ((PRODUCER_BYTE_RATE, producing), (CONSUMER_BYTE_RATE, consuming))
        for entity in entities
    )
    found = quota_of(image, PRODUCER_BYTE_RATE, user="ann", client_id="app")
    expected = next((each for each in PRECEDENCE if each in producing), None)
    assert (None if found is None else found[1]) == (
        None if expected is None else 100.0 + PRECEDENCE.index(expected)
    )


@pytest.mark.bug("KAFKA-9658")
@given(st.permutations(PRECEDENCE))
def test_a_removed_quota_counts_no_more_and_the_next_one_does(order: list[QuotaEntity]) -> None:
    """The last one that is removed leaves no limit."""
    image = MetadataImage()

    def put(entity: QuotaEntity, value: float | None) -> None:
        record = ClientQuota(entity=entity, key=PRODUCER_BYTE_RATE, value=value)
        image.apply(record, offset=image.offset + 1, epoch=1)

    for number, entity in enumerate(PRECEDENCE):
        put(entity, float(number + 1))
    left = list(PRECEDENCE)
    for entity in order:
        put(entity, None)
        left.remove(entity)
        found = quota_of(image, PRODUCER_BYTE_RATE, user="ann", client_id="app")
        assert (None if found is None else found[1]) == (PRECEDENCE.index(left[0]) + 1.0 if left else None)


def test_clients_of_a_default_have_a_quota_each_and_those_of_a_user_share_his() -> None:
    image = MetadataImage()

    def sharing(user: str, client_id: str) -> QuotaEntity:
        found = quota_of(image, PRODUCER_BYTE_RATE, user=user, client_id=client_id)
        assert found is not None
        return found[0]

    image.apply(
        ClientQuota(entity=QuotaEntity(client_id=""), key=PRODUCER_BYTE_RATE, value=1.0), offset=0, epoch=1
    )
    assert sharing("ann", "a") != sharing("ann", "b")
    assert sharing("ann", "a") == sharing("bob", "a")
    image.apply(
        ClientQuota(entity=QuotaEntity(user="ann"), key=PRODUCER_BYTE_RATE, value=1.0), offset=1, epoch=1
    )
    assert sharing("ann", "a") == sharing("ann", "b") == QuotaEntity(user="ann")
