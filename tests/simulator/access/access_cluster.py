"""A simulated broker cluster in which everybody has an identity, and an authorizer decides."""

import random
from collections.abc import Mapping
from typing import Final

import trio

from quorate.broker.settings.authorizer_settings import STANDARD
from quorate.broker.wire.listener_security import SaslMechanism
from quorate.broker.wire.login_network import Login, LoginNetwork
from quorate.raft.transport.identities import Identity
from quorate.runtime import Address, Entropy, Network, TlsFiles
from quorate.simulation.violations import SafetyViolation
from quorate.simulation.world.scheduler import Scheduler
from quorate.simulation.world.simulated_network import LinkQuality
from quorate.simulation.world.simulated_runtime import SimulatedRuntime
from quorate.simulation.world.trace import Trace
from quorate.types import NodeId
from tests.simulator.access.naive_rights import SUPER_USER, Right, Rights
from tests.simulator.access.rights_history import RightsHistory, some_of
from tests.simulator.brokers.broker_cluster import (
    CLIENT_PORT,
    CLUSTER_ID,
    CONTROLLER_PORT,
    BrokerCluster,
    BrokerClusterSettings,
    BrokerHost,
)

LOGIN_PORT: Final = 9094
AUTHORITY: Final = "ca"
MECHANISM: Final = SaslMechanism.SCRAM_SHA_256


def certificate(identity: Identity, authority: str = AUTHORITY) -> TlsFiles:
    """The files of a member. The path of a simulated certificate is its one URI."""
    return TlsFiles(certificate=identity.uri, key="key", authorities=authority)


class Window:
    """The rights by which one node may have decided about a request, from its begin on."""

    def __init__(self, history: RightsHistory, node: BrokerHost) -> None:
        """The node must be up."""
        self._history = history
        self._node = node
        self._life = node.life
        self.began = trio.current_time()
        self.first = history.at(node.image.offset)

    @property
    def is_of_one_life(self) -> bool:
        return self._node.server is not None and self._node.life == self._life

    def close(self) -> tuple[int, int]:
        """Return the numbers of the first and of the last rights, now that there is an answer."""
        if self.is_of_one_life:
            return self.first, self._history.at(self._node.image.offset)
        return self.first, len(self._history.states) - 1


class AccessCluster(BrokerCluster):
    """`history` has the rights at each offset."""

    def __init__(
        self,
        settings: BrokerClusterSettings,
        source: random.Random,
        scheduler: Scheduler,
        nursery: trio.Nursery,
        trace: Trace,
    ) -> None:
        super().__init__(settings, source, scheduler, nursery, trace)
        self.history = RightsHistory(self.checker.committed)
        self.checker.invariants += (self.history,)
        self.decided = {True: 0, False: 0}
        """The number of decisions that were compared, by whether they allowed."""

    def _protection(self, number: int, host: SimulatedRuntime) -> Mapping[str, str]:
        return {
            "listeners": f"SSL://{host.name}:{CLIENT_PORT},SASL://{host.name}:{LOGIN_PORT},"
            f"CONTROLLER://{host.name}:{CONTROLLER_PORT}",
            "listener.security.protocol.map": "SSL:SSL,SASL:SASL_PLAINTEXT,CONTROLLER:SSL",
            "inter.broker.listener.name": "SSL",
            "ssl.client.auth": "required",
            "ssl.keystore.location": Identity(CLUSTER_ID, NodeId(number)).uri,
            "ssl.truststore.location": AUTHORITY,
            "sasl.enabled.mechanisms": MECHANISM.value,
            "authorizer.class.name": STANDARD,
            "super.users": SUPER_USER,
        }

    def client_network(self, client: str) -> Network:
        """Return the network of a user, who shows a certificate."""
        return self.network.for_node(f"at-{client}").secured(certificate(Identity(CLUSTER_ID, None, client)))

    def login_network(self, user: str, password: str, source: random.Random) -> Network:
        """Return the network of a user, who logs in."""
        login = Login(mechanism=MECHANISM, user=user, password=password)
        entropy = Entropy(random.Random(source.getrandbits(64)))
        return LoginNetwork(self.network.for_node(f"at-{user}"), login, entropy)

    def login_address(self, node: BrokerHost) -> Address:
        return Address(node.name, LOGIN_PORT)

    def serves(self, node: BrokerHost) -> bool:
        """Return whether a process of the node has an image by which it may decide."""
        return node.server is not None and node.alive

    def is_behind(self, node: BrokerHost) -> bool:
        """Return whether a node that serves has not heard of the newest rights."""
        return node.image.offset < self.history.now.offset

    async def delay_metadata(self, source: random.Random) -> None:
        """Let one node after the other hear late from the active controller, which it is heard by at once.
        Runs until cancelled."""
        while True:
            leader = self.leader()
            node = source.choice(self.nodes)
            if leader is None or node is leader:
                await trio.sleep(0.1)
                continue
            late_s = source.choice((0.1, 0.4))
            self.network.set_link(
                leader.name, node.name, LinkQuality(latency_min_s=late_s, latency_max_s=late_s)
            )
            await trio.sleep(source.uniform(0.2, 0.6))
            self.network.set_link(leader.name, node.name, self.network_settings.link)

    def judge(
        self, who: str, what: str, any_of: tuple[Right, ...], window: tuple[int, int], *, denied: bool
    ) -> None:
        """Check that by some rights of the window the naive list decides as the broker did."""
        self.decided[not denied] += 1
        states = some_of(self.history.states, *window)
        if not any(each.allow(who, any_of) is not denied for each in states):
            self.wrong(who, what, any_of, states, denied=denied)

    def wrong(self, who: str, what: str, any_of: tuple[Right, ...], states: object, *, denied: bool) -> None:
        shown = [list(map(str, each.acls)) for each in states] if isinstance(states, list) else states
        self.found(
            "DecisionsAreThoseOfTheAcls",
            SafetyViolation(
                f"{who} was {'denied' if denied else 'allowed'} {what}, which needs one of {any_of}, by ACLs "
                f"that say otherwise: {shown}"
            ),
        )

    def unlike(self, node: BrokerHost) -> str | None:
        """Return what a node's image has that the committed records don't say. None: nothing."""
        rights: Rights = self.history.now
        image = node.image
        held = {str(each) for each in image.acls.by_id.values()}
        if held != set(map(str, rights.acls)):
            return f"{node.name} has the ACLs {sorted(held)}, and the log {sorted(map(str, rights.acls))}"
        salts = {each.name: bytes(each.salt) for each in image.scram_credentials()}
        if salts != (rights.salts or {}):
            return f"{node.name} has the passwords of {sorted(salts)}, and the log {rights.salts}"
        return None
