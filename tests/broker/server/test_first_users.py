"""A cluster whose clients have to log in begins with users, and keeps what becomes of them."""

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

from quorate.broker.access.sealing import Sealer
from quorate.broker.admin.admin_client import open_admin
from quorate.broker.admin.first_users import first_user
from quorate.broker.admin.users import list_users, remove_password
from quorate.broker.node_config.first_records import write_first_records
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.server import BrokerServer
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginError, LoginNetwork
from quorate.cli.node.free_ports import free_ports
from quorate.raft.storage.storage import format_folder
from quorate.runtime import Address
from quorate.runtime.real import SyncStrategy, real_runtime
from quorate.types import NodeId

MECHANISM = SaslMechanism.SCRAM_SHA_256


def network(user: str, password: str) -> LoginNetwork:
    runtime = real_runtime(sync=SyncStrategy.THREAD)
    return LoginNetwork(
        runtime.network, Login(mechanism=MECHANISM, user=user, password=password), runtime.entropy
    )


async def test_the_first_users_log_in_and_one_that_is_removed_does_not_come_back(tmp_path: Path) -> None:
    clients, brokers, controller = free_ports(3)
    folder, key = tmp_path / "node", tmp_path / "sealing.key"
    key.touch(0o600)
    key.write_text(base64.b64encode(bytes(32)).decode())
    config = ServerConfig.parse(
        "process.roles=broker,controller\nnode.id=1\ncontroller.listener.names=CONTROLLER\n"
        f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
        f"listeners=CLIENTS://127.0.0.1:{clients},BROKERS://127.0.0.1:{brokers},"
        f"CONTROLLER://127.0.0.1:{controller}\n"
        "inter.broker.listener.name=BROKERS\n"
        "listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,BROKERS:PLAINTEXT,CONTROLLER:PLAINTEXT\n"
        "sasl.enabled.mechanisms=SCRAM-SHA-256\n"
        f"scram.sealing.key.location={key}\nlog.dirs={folder}\n"
    )
    runtime, address = real_runtime(sync=SyncStrategy.THREAD), Address("127.0.0.1", clients)
    sealer = Sealer(runtime.disk, str(key))
    users = [
        sealer.seal(first_user(f"SCRAM-SHA-256=[name={name},password=password-of-{name}]", runtime.entropy))
        for name in ("ann", "bob")
    ]
    await write_first_records(runtime.disk, str(folder), users)
    await format_folder(runtime, str(folder), cluster_id="c", node_id=NodeId(1))

    @asynccontextmanager
    async def started() -> AsyncIterator[BrokerServer]:
        async with BrokerServer.open(config) as server:
            with trio.fail_after(30):
                await server.wait_ready()
            yield server

    admin_of = partial(open_admin, network("ann", "password-of-ann"), [address], client_id="t")
    async with started():
        with pytest.raises(LoginError):
            await network("ann", "another").connect(address)
        async with admin_of() as admin:
            assert {each.user for each in await list_users(admin)} == {"ann", "bob"}
            await remove_password(admin, "bob", mechanism=MECHANISM.value)
    async with started() as server, admin_of() as admin:
        assert {each.user for each in await list_users(admin)} == {"ann"}
        assert [each.sealed_by for each in server.metadata.image.scram_credentials()] == [sealer.key_id]
