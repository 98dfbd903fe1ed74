"""Principals by certificate, and brokers that have to be who was dialled."""

import random
from dataclasses import dataclass

import pytest
import trio

from quorate.broker.access.certificates import BrokerNetwork, principal_of
from quorate.broker.wire.principal_rules import PrincipalRules
from quorate.broker.wire.principals import ANONYMOUS, NODE, Principal
from quorate.raft.transport.identities import Identity
from quorate.runtime import Address, TlsError, TlsFiles
from quorate.simulation.world.simulated_network import SimulatedNetwork
from quorate.types import NodeId

HOME = Address("two", 9091)


@dataclass
class Shown:
    """What the other end of a connection has shown."""

    identities: tuple[str, ...] | None
    subject: str | None = None
    peer: str = "h:1"


@pytest.mark.parametrize(
    ("shown", "principal"),
    [
        (Shown(None), ANONYMOUS),
        (Shown(()), ANONYMOUS),
        (Shown((), "CN=bob,O=Shop"), Principal("User", "CN=bob,O=Shop")),
        (Shown(("https://example.com",), "CN=bob"), Principal("User", "CN=bob")),
        (Shown((Identity("c", None, "web").uri,), "CN=client-web"), Principal("User", "web")),
        (Shown((Identity("c", NodeId(7)).uri,), "CN=node-7"), Principal(NODE, "7")),
    ],
)
def test_a_certificate_is_a_principal(shown: Shown, principal: Principal) -> None:
    assert principal_of(shown, "c") == principal  # type: ignore[arg-type]


@pytest.mark.bug("CVE-2021-3127")
@pytest.mark.parametrize(
    "uris",
    [
        (Identity("other", NodeId(7)).uri,),
        (Identity("c", NodeId(7)).uri, Identity("c", NodeId(8)).uri),
        ("quorate://c/node/07",),
        ("quorate://c/node/7/x",),
        ("quorate://c/admin/7",),
    ],
)
def test_a_certificate_that_names_another_member_or_none_is_nobody(uris: tuple[str, ...]) -> None:
    with pytest.raises(TlsError):
        principal_of(Shown(uris, "CN=node-7"), "c")  # type: ignore[arg-type]


def files(identity: Identity) -> TlsFiles:
    """In simulation a certificate is the URI that it would name."""
    return TlsFiles(certificate=identity.uri, key="", authorities="")


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (Identity("c", NodeId(2)), None),
        (Identity("c", NodeId(3)), "its certificate is that of node 3, and the broker at this address is 2"),
        (Identity("c", None, "web"), "its certificate is of client web of cluster c, but only nodes"),
        (Identity("other", NodeId(2)), "this is cluster c"),
    ],
)
async def test_a_broker_has_to_be_the_one_that_was_dialled(
    answers: Identity, says: str | None, autojump_clock: trio.abc.Clock
) -> None:
    net = SimulatedNetwork(random.Random(1))
    listener = await net.for_node("two").secured(files(answers)).listen(HOME)
    own = net.for_node("one").secured(files(Identity("c", NodeId(1))))
    network = BrokerNetwork(own, cluster_id="c", brokers_at=lambda address: frozenset({2}))

    async def accept() -> None:
        stream = await listener.accept()
        await stream.handshake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        if says is None:
            stream = await network.connect(HOME)
            assert stream.identities == (answers.uri,)
        else:
            try:
                await network.connect(HOME)
            except TlsError as error:
                assert says in str(error)
            else:
                pytest.fail("another broker was believed")
        nursery.cancel_scope.cancel()


def test_a_certificate_that_no_rule_fits_is_refused() -> None:
    rules = PrincipalRules.parse("RULE:CN=(ann)/$1/")
    assert principal_of(Shown((), "CN=ann"), "c", rules) == Principal("User", "ann")  # type: ignore[arg-type]
    with pytest.raises(TlsError, match=r"no rule of ssl\.principal\.mapping\.rules fits"):
        principal_of(Shown((), "CN=bob"), "c", rules)  # type: ignore[arg-type]
