"""AlterUserScramCredentials: each user wholly or not at all, all in one batch, and logins by the result."""

import base64
import hashlib

import pytest
from captured_logs import captured_logs
from sasl_clients import SHA_256, SHA_512, ScramClient
from sealing_keys import sealer_with

from quorate.broker.access.scram_credentials import MetadataCredentials
from quorate.broker.access.sealing import Sealer
from quorate.broker.controller.operations.scram_credentials import alter_user_scram_credentials, seal_again
from quorate.broker.controller.rpc import AlterUserScramCredentialsRequest, ScramDeletion, ScramUpsertion
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.metadata.record_codec import encode
from quorate.broker.wire.sasl.credentials import LoginRefusedError
from quorate.broker.wire.sasl.scram import ScramExchange
from quorate.error_code import ErrorCode
from quorate.types import SecretBytes

OLD, NEW, LOST = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))
SALT = SecretBytes(b"salt of a user")


def upsertion(
    name: str, password: str = "secret", *, mechanism: int = 1, iterations: int = 4096, **more: SecretBytes
) -> ScramUpsertion:
    algorithm = "sha512" if mechanism == 2 else "sha256"
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, max(1, min(iterations, 5000)))
    secrets = {"salt": SALT, "salted_password": SecretBytes(salted)} | more
    return ScramUpsertion(name=name, mechanism=mechanism, iterations=iterations, **secrets)


def alter(
    cluster, *items: ScramUpsertion | ScramDeletion, sealer: Sealer | None = None
) -> dict[str, tuple[ErrorCode, str]]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in items if isinstance(each, ScramDeletion)),
        upsertions=tuple(each for each in items if isinstance(each, ScramUpsertion)),
    )
    outcome = alter_user_scram_credentials(cluster.image, request, sealer=sealer)
    assert len(outcome.groups) <= 1, "one batch"
    return {each.user: (each.error, each.error_message or "") for each in cluster.do(outcome).results}


FINE = (ErrorCode.NONE, "")


def logs_in(credentials: MetadataCredentials, password: str, mechanism=SHA_256) -> bool:
    client = ScramClient(mechanism, "ann", password)
    server = ScramExchange(mechanism, credentials, server_nonce="n")
    try:
        return client.trusts(server.take_final(client.final(server.take_first(client.first()))))
    except LoginRefusedError:
        return False


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
@pytest.mark.parametrize("sealer", [None, sealer_with(OLD)], ids=["readable", "sealed"])
def test_a_user_logs_in_by_the_password_that_was_set_last_until_it_is_removed(
    cluster, mechanism, sealer
) -> None:
    number = ScramMechanism[mechanism.name]
    credentials = MetadataCredentials(lambda: cluster.image, cluster_id="c", sealer=sealer)

    def log_in(password: str) -> bool:
        return logs_in(credentials, password, mechanism)

    assert not log_in("first")
    assert alter(cluster, upsertion("ann", "first", mechanism=number), sealer=sealer) == {"ann": FINE}
    assert log_in("first")
    assert alter(cluster, upsertion("ann", "second", mechanism=number), sealer=sealer) == {"ann": FINE}
    assert (log_in("first"), log_in("second")) == (False, True)
    assert alter(cluster, ScramDeletion(name="ann", mechanism=number), sealer=sealer) == {"ann": FINE}
    assert not log_in("second")


def test_what_is_wrong_with_a_user_is_said_of_that_user_alone(cluster) -> None:
    answers = alter(
        cluster,
        ScramDeletion(name="gone", mechanism=1),
        ScramDeletion(name="twice", mechanism=1),
        upsertion("twice", mechanism=2),
        upsertion("same"),
        upsertion("same"),
        upsertion(""),
        upsertion("unknown", mechanism=3),
        upsertion("few", iterations=4095),
        upsertion("many", iterations=16385),
        upsertion("short", salted_password=SecretBytes(bytes(31))),
        upsertion("no salt", salt=SecretBytes(bytes(7))),
        upsertion("much salt", salt=SecretBytes(bytes(1025))),
        upsertion("x" * 256),
        upsertion("a\nb"),
        upsertion("good"),
        upsertion("strong", mechanism=2, iterations=16384),
    )
    bad = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert {name: error for name, (error, _) in answers.items()} == {
        "gone": ErrorCode.RESOURCE_NOT_FOUND,
        "twice": ErrorCode.DUPLICATE_RESOURCE,
        "same": ErrorCode.DUPLICATE_RESOURCE,
        "": bad,
        "unknown": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
        "few": bad,
        "many": bad,
        "short": bad,
        "no salt": bad,
        "much salt": bad,
        "x" * 256: bad,
        "a\nb": bad,
        "good": ErrorCode.NONE,
        "strong": ErrorCode.NONE,
    }
    assert answers["few"][1] == "Too few iterations"
    assert answers["many"][1] == "Too many iterations"
    assert list(cluster.image.scram_users()) == ["good", "strong"]


def test_neither_the_request_nor_the_record_shows_the_password() -> None:
    shown = repr(AlterUserScramCredentialsRequest(upsertions=(upsertion("ann"),)))
    assert shown.count("[hidden]") == 2
    assert "salt of" not in shown


def test_the_log_has_no_key_that_can_be_read(cluster) -> None:
    sealer = sealer_with(OLD)
    alter(cluster, upsertion("ann"))
    (readable,) = cluster.image.scram_credentials()
    alter(cluster, upsertion("ann"), sealer=sealer)
    (sealed,) = cluster.image.scram_credentials()
    assert (sealed.sealed_by, readable.sealed_by) == (sealer.key_id, "")
    for key in (readable.stored_key, readable.server_key):
        assert bytes(key) not in encode(sealed), "the same password, salt and mechanism"


def test_a_controller_without_the_key_adds_no_readable_credential_to_sealed_ones(cluster) -> None:
    alter(cluster, upsertion("ann"), sealer=sealer_with(OLD))
    ((error, message),) = alter(cluster, upsertion("bob")).values()
    assert error is ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert "scram.sealing.key.location" in message
    assert alter(cluster, ScramDeletion(name="ann", mechanism=1)) == {"ann": FINE}
    assert alter(cluster, upsertion("bob")) == {"bob": FINE}


async def test_a_broker_without_the_key_refuses_the_login_and_says_why_once_in_a_while(cluster) -> None:
    sealer = sealer_with(OLD)
    alter(cluster, upsertion("ann", "first"), sealer=sealer)
    for lacking in (None, sealer_with(NEW)):
        credentials = MetadataCredentials(lambda: cluster.image, cluster_id="c", sealer=lacking)
        with captured_logs() as logs:
            assert not any(logs_in(credentials, "first") for _ in range(3))
        (line,) = [each for each in logs if each["log_level"] == "error"]
        assert sealer.key_id in str(line)
        assert "scram.sealing.key.location" in str(line)


def test_credentials_are_sealed_by_the_first_key_and_the_old_one_can_go(cluster) -> None:
    alter(
        cluster, upsertion("old", "p"), sealer=sealer_with("\n".join((base64.b64encode(bytes(32)).decode(),)))
    )
    alter(cluster, upsertion("ann", "first"), sealer=sealer_with(OLD))
    both = sealer_with(f"{NEW}\n{OLD}")
    alter(cluster, upsertion("new"), sealer=both)
    users = [(each.name, each.mechanism) for each in cluster.image.scram_credentials()]
    answer = cluster.do(seal_again(cluster.image, [*users, ("gone", ScramMechanism.SCRAM_SHA_256)], both))
    assert (answer.sealed, answer.kept, answer.unopened) == (1, 1, 1)
    lost = cluster.image.scram_credential("old", ScramMechanism.SCRAM_SHA_256)
    assert lost is not None
    assert answer.missing_key == lost.sealed_by
    credentials = MetadataCredentials(lambda: cluster.image, cluster_id="c", sealer=sealer_with(NEW))
    assert logs_in(credentials, "first")
