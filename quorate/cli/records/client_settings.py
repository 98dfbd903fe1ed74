"""librdkafka's settings, made of those of Kafka's clients."""

from collections.abc import Mapping
from pathlib import Path

from quorate.broker.wire.client_protection import ClientProtectionError, login_of, protocol_of
from quorate.cli.console.cli_errors import wrong_usage
from quorate.cli.console.command_config import read_command_config

Settings = dict[str, str | int | float | bool]


def client_settings(bootstrap: str, config: Path | None) -> Settings:
    """Return how a client of librdkafka's reaches a cluster. `config`: the file of `--command-config`. Exits
    with the key that is wrong."""
    found: Settings = {"bootstrap.servers": bootstrap, "client.id": "quorate-cli", "log_level": 2}
    if config is None:
        return found
    try:
        return {**found, **protection_of(read_command_config(config))}
    except ClientProtectionError as error:
        raise wrong_usage(f"--command-config {config}: {error}") from None


def protection_of(settings: Mapping[str, str]) -> Settings:
    """Return the settings of a protected cluster. Others than those of the protection are left alone. Raises
    `ClientProtectionError`."""
    protocol = protocol_of(settings)
    found: Settings = {"security.protocol": protocol.value.lower()}
    if protocol.encrypted:
        found |= _tls(settings)
    if protocol.sasl:
        login = login_of(settings)
        found |= {
            "sasl.mechanisms": login.mechanism.value,
            "sasl.username": login.user,
            "sasl.password": login.password,
        }
    return found


def _tls(settings: Mapping[str, str]) -> Settings:
    if settings.get("ssl.endpoint.identification.algorithm", "https") != "https":
        raise ClientProtectionError(
            "ssl.endpoint.identification.algorithm", "hosts are always compared; only https can be had"
        )
    if settings.get("ssl.truststore.type", "PEM") != "PEM":
        raise ClientProtectionError(
            "ssl.truststore.type",
            "librdkafka reads authorities as PEM alone; write them by openssl pkcs12 -nokeys, and write PEM",
        )
    found: Settings = {}
    if truststore := settings.get("ssl.truststore.location"):
        found["ssl.ca.location"] = truststore
    if not (keystore := settings.get("ssl.keystore.location")):
        return found
    if settings.get("ssl.keystore.type", "PEM") == "PKCS12":
        found |= {
            "ssl.keystore.location": keystore,
            "ssl.keystore.password": settings.get("ssl.keystore.password", ""),
        }
    else:
        found |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}
        if password := settings.get("ssl.key.password"):
            found["ssl.key.password"] = password
    return found
