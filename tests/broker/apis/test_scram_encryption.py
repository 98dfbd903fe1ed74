"""Passwords are set through encrypted listeners, or on the machine itself."""

from dataclasses import replace

import pytest
import trio
from api_broker import CONFIG, broker_of, context
from kio.schema.errors import ErrorCode

from quorate.broker.apis.client_throttles import ClientThrottles
from quorate.broker.apis.scram_credentials import handle_alter_user_scram_credentials
from quorate.broker.controller.rpc import AlterUserScramCredentialsResponse, UserScramResult
from quorate.broker.metadata.image import MetadataImage
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.wire.api import ApiKey
from quorate.broker.wire.codecs.entities import build, request_type
from quorate.broker.wire.exchanges import RequestContext
from quorate.broker.wire.listener_security import ListenerSecurity, SecurityProtocol
from quorate.broker.wire.wire_errors import KafkaError
from quorate.error_code import ErrorCode as ControllerCode
from quorate.runtime.token_bucket import QuotaWindows

SET = [{"name": "ann", "mechanism": 1, "iterations": 4096, "salt": b"s", "salted_password": b"p"}]


class Channel:
    def __init__(self) -> None:
        self.asked: list[object] = []

    async def ask(
        self, request: object, *, timeout_seconds: float, asker: object
    ) -> AlterUserScramCredentialsResponse:
        self.asked.append(request)
        return AlterUserScramCredentialsResponse(
            results=(UserScramResult(user="ann", error=ControllerCode.NONE, error_message=None),)
        )


async def alters(
    nursery, peer: str, *, protocol=SecurityProtocol.PLAINTEXT, more: str = "", **fields
) -> bool:
    """Whether the controller was asked. Raises the refusal."""
    config = ServerConfig.parse(f"{CONFIG}\n{more}")
    config = replace(config, listener_security={"PLAINTEXT": ListenerSecurity(protocol=protocol)})
    channel = Channel()
    throttles = ClientThrottles(MetadataImage, QuotaWindows())
    broker = broker_of(config=config, channel=channel, tasks=nursery, throttles=throttles)
    asked = context(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    asked = RequestContext(replace(asked.connection, peer=peer), asked.api, 0, 1, None)
    values = {"deletions": [], "upsertions": []} | fields
    request = build(request_type(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0), **values)
    deferred = handle_alter_user_scram_credentials(broker, asked, request)
    done = trio.Event()
    deferred.notify(done.set)
    await done.wait()
    await deferred.result()
    return bool(channel.asked)


async def test_a_password_that_others_could_read_on_its_way_is_refused(nursery) -> None:
    for protocol in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT):
        for peer in ("192.0.2.1:5000", "[2001:db8::1]:5000", "elsewhere:5000"):
            with pytest.raises(KafkaError, match=r"SASL_SSL.*scram\.over\.plaintext\.enable") as refusal:
                await alters(nursery, peer, protocol=protocol, upsertions=SET)
            assert refusal.value.code is ErrorCode.policy_violation


async def test_one_that_nobody_else_reads_is_set(nursery) -> None:
    far = "192.0.2.1:5000"
    assert await alters(nursery, "127.0.0.1:5000", upsertions=SET)
    assert await alters(nursery, "[::1]:5000", upsertions=SET)
    assert await alters(nursery, "[::ffff:127.0.0.1]:5000", upsertions=SET)
    assert await alters(nursery, far, protocol=SecurityProtocol.SSL, upsertions=SET)
    assert await alters(nursery, far, protocol=SecurityProtocol.SASL_SSL, upsertions=SET)
    assert await alters(nursery, far, more="scram.over.plaintext.enable=true", upsertions=SET)


async def test_a_removal_has_no_secret(nursery) -> None:
    assert await alters(nursery, "192.0.2.1:5000", deletions=[{"name": "ann", "mechanism": 1}])
