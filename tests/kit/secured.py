"""A simulated quorum with TLS, and who dials it."""

from quorate.raft.transport.identities import Identity
from quorate.runtime import Address, TlsFiles
from quorate.types import NodeId

CLUSTER_ID = "driver-tests"


def files(identity, authority="ca"):
    return TlsFiles(certificate=identity.uri, key="key", authorities=authority)


def node(number, cluster_id=CLUSTER_ID):
    return Identity(cluster_id, NodeId(number))


WEB = Identity(CLUSTER_ID, None, "web")


class Secured:
    """A world with TLS."""

    def __init__(self, world):
        self.world = world
        config = world.config

        def with_tls(number):
            world.overrides["tls"] = files(node(self.certificate_of(number)))
            return config(number)

        world.config = with_tls
        self.certificate_of = lambda number: number

    async def dial(self, target, identity, authority="ca"):
        network = self.world.network.for_node("outside")
        if identity is not None:
            network = network.secured(files(identity, authority))
        return await network.connect(Address(f"node-{target}", 9093))
