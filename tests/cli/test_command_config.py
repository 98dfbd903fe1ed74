"""`--command-config`: the keys of Kafka's clients, read into the network of a command."""

from pathlib import Path

import pytest
from captured_logs import captured_logs

from quorate.broker.wire.client_protection import ClientNetwork
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginNetwork
from quorate.cli.all_commands import _configured_first
from quorate.cli.console.cli_errors import CommandExit
from quorate.cli.console.command_config import network_by
from quorate.runtime.real import RealNetwork

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def written(folder: Path, **values: str) -> Path:
    path = folder / "client.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
    return path


def test_without_a_file_nothing_is_protected() -> None:
    assert isinstance(network_by(None), RealNetwork)


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        (f'{SCRAM} required username="bob" password="p a\\\\"ss;1";', "bob", 'p a"ss;1'),
        (f"{SCRAM} required \\\n username=bob password='x=y';", "bob", "x=y"),
        (f'{SCRAM.replace("scram.Scram", "plain.Plain")} required username="bob" password="x"', "bob", "x"),
    ],
)
def test_a_login_is_read_as_kafka_reads_it(tmp_path: Path, jaas: str, user: str, password: str) -> None:
    path = written(
        tmp_path,
        **{
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": jaas,
            "client.id": "not ours",
        },
    )
    network = network_by(path)
    assert isinstance(network, ClientNetwork)
    assert isinstance(network._network, LoginNetwork)
    login = network._network._login
    assert login == Login(mechanism=SaslMechanism.SCRAM_SHA_256, user=user, password=password)
    assert password not in repr(login)


@pytest.mark.bug("CVE-2023-25194")
@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"security.protocol": "TLS"}, "security.protocol: it is TLS; it must be one of"),
        (
            {"security.protocol": "SASL_PLAINTEXT"},
            "sasl.mechanism: it is ''; it must be one of",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"},
            "sasl.mechanism: it is 'OAUTHBEARER'; it must be one of SCRAM-SHA-256, SCRAM-SHA-512, PLAIN",
        ),
        (
            {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"},
            "sasl.jaas.config: it names no user; write org.apache.kafka",
        ),
        (
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": 'com.sun.JndiLoginModule required username="a" password="b";',
            },
            "sasl.jaas.config: it names no user",
        ),
        (
            {"security.protocol": "SSL", "ssl.truststore.type": "JKS"},
            "truststore.type: quorate reads PEM and PKCS12; make the latter of another keystore by `keytool",
        ),
        (
            {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""},
            "ssl.endpoint.identification.algorithm: hosts are always compared",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.location": "nowhere"}, "nowhere can't be read"),
    ],
)
def test_what_is_wrong_is_named_with_the_file_and_the_key(
    tmp_path: Path, values: dict[str, str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, **values)
    with pytest.raises(CommandExit):
        network_by(path)
    said = " ".join(capsys.readouterr().err.split())
    assert f"--command-config {path}" in said
    assert says in said


@pytest.mark.bug("CVE-2024-31141")
@pytest.mark.bug("CVE-2026-24308")
def test_a_password_is_the_text_in_the_file_and_is_shown_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    password = "${file:/etc/passwd:root}${env:HOME}"
    values = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{SCRAM} required username="bob" password="{password}";',
        "ssl.key.password": password,
        "config.providers": "file,env",
    }
    with captured_logs() as lines:
        network = network_by(written(tmp_path, **values))
        assert isinstance(network, ClientNetwork)
        assert isinstance(network._network, LoginNetwork)
        assert network._network._login.password == password
        wrong = {"sasl.mechanism": "none"}, {"sasl.jaas.config": f"no.Module required password='{password}';"}
        for each in wrong:
            with pytest.raises(CommandExit):
                network_by(written(tmp_path, **values | each))
        with pytest.raises(CommandExit):
            network_by(
                written(tmp_path, **values | {"security.protocol": "SSL", "ssl.keystore.location": "no"})
            )
    said = capsys.readouterr()
    assert said.err
    assert password not in f"{said} {lines} {network!r} {network._network!r} {network._network._login!r}"


def test_the_option_may_stand_behind_the_command_and_not_behind_two_dashes() -> None:
    assert _configured_first(["topics", "list", "--command-config", "f", "-b", "h:1"]) == [
        *("--command-config", "f"),
        *("topics", "list", "-b", "h:1"),
    ]
    assert _configured_first(["topics", "--command-config=f"]) == ["--command-config=f", "topics"]
    assert _configured_first(["append", "--", "--command-config", "f"]) == [
        *("append", "--", "--command-config", "f")
    ]
