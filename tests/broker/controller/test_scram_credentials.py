"""AlterUserScramCredentials: each user wholly or not at all, all in one batch, and logins by the result."""

import hashlib

import pytest
from sasl_clients import SHA_256, SHA_512, ScramClient

from quorate.broker.access.scram_credentials import MetadataCredentials
from quorate.broker.controller.operations.scram_credentials import alter_user_scram_credentials
from quorate.broker.controller.rpc import AlterUserScramCredentialsRequest, ScramDeletion, ScramUpsertion
from quorate.broker.metadata.metadata_records import ScramMechanism
from quorate.broker.wire.sasl.credentials import LoginRefusedError
from quorate.broker.wire.sasl.scram import ScramExchange
from quorate.error_code import ErrorCode
from quorate.types import SecretBytes

SALT = SecretBytes(b"salt of a user")


def upsertion(
    name: str, password: str = "secret", *, mechanism: int = 1, iterations: int = 4096, **more: SecretBytes
) -> ScramUpsertion:
    algorithm = "sha512" if mechanism == 2 else "sha256"
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, max(1, min(iterations, 5000)))
    secrets = {"salt": SALT, "salted_password": SecretBytes(salted)} | more
    return ScramUpsertion(name=name, mechanism=mechanism, iterations=iterations, **secrets)


def alter(cluster, *items: ScramUpsertion | ScramDeletion) -> dict[str, tuple[ErrorCode, str]]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(each for each in items if isinstance(each, ScramDeletion)),
        upsertions=tuple(each for each in items if isinstance(each, ScramUpsertion)),
    )
    outcome = alter_user_scram_credentials(cluster.image, request)
    assert len(outcome.groups) <= 1, "one batch"
    return {each.user: (each.error, each.error_message or "") for each in cluster.do(outcome).results}


FINE = (ErrorCode.NONE, "")


@pytest.mark.parametrize("mechanism", [SHA_256, SHA_512])
def test_a_user_logs_in_by_the_password_that_was_set_last_until_it_is_removed(cluster, mechanism) -> None:
    number = ScramMechanism[mechanism.name]
    credentials = MetadataCredentials(lambda: cluster.image, cluster_id="c")

    def log_in(password: str) -> bool:
        client = ScramClient(mechanism, "ann", password)
        server = ScramExchange(mechanism, credentials, server_nonce="n")
        try:
            return client.trusts(server.take_final(client.final(server.take_first(client.first()))))
        except LoginRefusedError:
            return False

    assert not log_in("first")
    assert alter(cluster, upsertion("ann", "first", mechanism=number)) == {"ann": FINE}
    assert log_in("first")
    assert alter(cluster, upsertion("ann", "second", mechanism=number)) == {"ann": FINE}
    assert (log_in("first"), log_in("second")) == (False, True)
    assert alter(cluster, ScramDeletion(name="ann", mechanism=number)) == {"ann": FINE}
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
