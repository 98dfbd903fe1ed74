"""Stock clients log in by signed tokens, at a node that reads its issuer's keys from a file."""

import asyncio
import os
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from aiokafka import AIOKafkaConsumer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context
from captured_logs import captured_logs
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer
from kafka.net.sasl.oauth import AbstractTokenProvider as KafkaPythonTokens
from signed_tokens import AUDIENCE, ISSUER, Key, claims_at, jwks

from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.server import BrokerServer
from quorate.certs import CertificateFolder, keystore_of
from quorate.cli.node.free_ports import free_ports
from quorate.types import NodeId

KEY = Key("k1", "RS256")


def token(**changed: object) -> str:
    return KEY.token(claims_at(time.time(), **changed))


class Node:
    """One node whose listener for clients takes tokens."""

    def __init__(self, folder: Path) -> None:
        certificates = CertificateFolder(folder / "certs", now=datetime.now(UTC))
        certificates.create_authority("test-cluster")
        self.authorities = str(certificates.authorities)
        self.jwks = folder / "jwks.json"
        self.jwks.write_bytes(jwks(KEY))
        os.chmod(self.jwks, 0o644)
        keystore = keystore_of(certificates.create_node(NodeId(1), hosts=["localhost"]).certificate)
        between, self.port, controller = free_ports(3)
        self.settings = {
            "listeners": f"BROKERS://127.0.0.1:{between},CLIENTS://localhost:{self.port},"
            f"CONTROLLER://127.0.0.1:{controller}",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "inter.broker.listener.name": "BROKERS",
            "listener.security.protocol.map": "BROKERS:PLAINTEXT,CLIENTS:SASL_SSL,CONTROLLER:PLAINTEXT",
            "ssl.keystore.location": str(keystore),
            "listener.name.clients.sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": f"file://{self.jwks}",
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
        }

    def by_librdkafka(self, text: str, timeout_s: float) -> int:
        """Return the number of brokers. Raises `KafkaException`."""
        admin = AdminClient(
            {
                "bootstrap.servers": f"localhost:{self.port}", "security.protocol": "SASL_SSL",
                "sasl.mechanisms": "OAUTHBEARER", "ssl.ca.location": self.authorities, "log_level": 0,
                "oauth_cb": lambda _: (text, time.time() + 60),
            }
        )  # fmt: skip
        return len(admin.list_topics(timeout=timeout_s).brokers)

    def by_aiokafka(self, text: str) -> int:
        class Provider(AbstractTokenProvider):
            async def token(self) -> str:
                return text

        async def run() -> int:
            consumer = AIOKafkaConsumer(
                bootstrap_servers=f"localhost:{self.port}", security_protocol="SASL_SSL",
                sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider(),
                ssl_context=create_ssl_context(cafile=self.authorities),
            )  # fmt: skip
            try:
                await consumer.start()
                return len(await consumer.topics())
            finally:
                await consumer.stop()

        return asyncio.run(run())

    def by_kafka_python(self, text: str) -> int:
        class Provider(KafkaPythonTokens):
            def token(self) -> str:
                return text

        consumer = KafkaConsumer(
            bootstrap_servers=f"localhost:{self.port}", security_protocol="SASL_SSL",
            sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider(),
            ssl_cafile=self.authorities,
        )  # fmt: skip
        try:
            return len(consumer.topics())
        finally:
            consumer.close()


@pytest.mark.slow
async def test_librdkafka_logs_in_by_a_token_and_by_no_forged_one(make_nodes, tmp_path: Path) -> None:
    node = Node(tmp_path)
    nodes = await make_nodes(1, node.settings)
    assert await trio.to_thread.run_sync(node.by_librdkafka, token(), 10) == 1
    await refuses(nodes, partial(node.by_librdkafka, forged(), 1), KafkaException)


@pytest.mark.slow
async def test_pythons_clients_log_in_by_a_token_and_by_no_forged_one(make_nodes, tmp_path: Path) -> None:
    node = Node(tmp_path)
    nodes = await make_nodes(1, node.settings)
    for by in (node.by_aiokafka, node.by_kafka_python):
        assert await trio.to_thread.run_sync(by, token()) == 0
    await refuses(nodes, partial(node.by_aiokafka, forged()), KafkaError)


def forged() -> str:
    return Key("other", "RS256").token(claims_at(time.time()), kid="k1")


async def refuses(nodes: Any, log_in: Callable[[], object], error: type[Exception]) -> None:
    before = nodes.servers[1].broker.logins()["CLIENTS"]
    assert before.successful and not before.failed
    with captured_logs() as entries, pytest.raises(error):
        await trio.to_thread.run_sync(log_in)
    reasons = {str(each["reason"]) for each in entries if each["event"] == "login failed"}
    assert reasons == {"the signature of the token is not of key 'k1'"}
    after = nodes.servers[1].broker.logins()["CLIENTS"]
    assert after.successful == before.successful and after.failed


async def test_a_node_whose_file_of_keys_is_missing_does_not_start(make_nodes, tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.jwks.unlink()
    nodes = await make_nodes(1, node.settings, start=False)
    await nodes.format()
    with pytest.raises(ServerConfigError, match=r"jwks\.json can't be read: .*fetch the issuer's JWKS"):
        async with BrokerServer.open(nodes.config(1)):
            pass
