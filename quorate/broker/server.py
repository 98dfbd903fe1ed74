"""A node: the quorum, and on it the controller, the broker or both, as process.roles says."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

import trio
from prometheus_client import CollectorRegistry

from quorate.broker.access.sealing import SETTING, Sealer, SealingFileError
from quorate.broker.broker_health import NodeHealth, node_health
from quorate.broker.broker_metrics import BrokerMetrics
from quorate.broker.broker_node import BrokerNode
from quorate.broker.certificate_metrics import CertificateMetrics
from quorate.broker.controller_channel import ControllerChannel
from quorate.broker.controller_node import ControllerNode, controller_clients
from quorate.broker.log_directories import open_directories
from quorate.broker.metadata.metadata_records import BrokerEndpoint
from quorate.broker.metadata_cache import MetadataCache
from quorate.broker.node_config.first_records import load_first_records
from quorate.broker.node_config.metrics_protection import is_for_this_machine, metrics_tls
from quorate.broker.node_config.page_peers import PagePeer
from quorate.broker.node_config.properties_file import ServerConfigError
from quorate.broker.node_config.server_config import ServerConfig
from quorate.broker.page.node_view import NodeLog, NodeView, recent_of
from quorate.broker.page.page_health import PageHealth
from quorate.broker.page.page_server import Page
from quorate.broker.page.recent_groups import recent_groups
from quorate.broker.page.replayed import Past
from quorate.broker.page.votes import Votes
from quorate.broker.raft_log_lines import BothTelemetry, ServerTelemetry
from quorate.broker.wire.listener_security import ListenerSecurity, SecurityProtocol
from quorate.metrics import RaftMetrics, TokenFile, TokenFileError, serve_metrics
from quorate.quorum_state import load_meta_properties
from quorate.raft import Quorum
from quorate.raft.storage.storage import LOCK_FILE
from quorate.runtime import Address, CertificateEnd, Listener, Network, Runtime, TlsFilesError, get_logger
from quorate.runtime.real import SyncStrategy, real_runtime

log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BrokerServer:
    """One running node: a broker, a controller or both. Open it with `BrokerServer.open`."""

    config: ServerConfig
    cluster_id: str
    metadata: MetadataCache
    quorum: Quorum[None]
    controller: ControllerNode | None
    broker: BrokerNode | None
    metrics_address: Address | None
    registry: CollectorRegistry

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        config: ServerConfig,
        *,
        runtime: Runtime | None = None,
        registry: CollectorRegistry | None = None,
        telemetry: ServerTelemetry | None = None,
        health: PageHealth | None = None,
    ) -> AsyncIterator["BrokerServer"]:
        """Start the node, and stop it in order at the end of the block: it transfers its partitions, flushes
        its logs and resigns from the leadership of the quorum.

        The block begins when the node listens. `wait_ready` returns when a broker serves. An error that stops
        the node cancels the block and is raised at its end. Raises `QuorumStateError` or `LogError` for
        directories that can't be used, `AddressInUseError`, `DiskLockedError`, `SameDirectoryError`,
        `DuplicateReplicaError`, `BrokerRegistrationError`. `telemetry` observes the quorum beside the
        metrics. `health` finds the problems that the node's page shows.
        """
        runtime = runtime or real_runtime(sync=SyncStrategy.THREAD)
        registry = registry or CollectorRegistry()
        folder = config.metadata_log_dir
        _check_folders(config, runtime)
        meta = load_meta_properties(runtime.disk, folder)
        meta.check(folder, node_id=config.node_id)
        sealer = _sealer_of(config, runtime)
        metadata = MetadataCache()
        raft_metrics = RaftMetrics(registry, monotonic=trio.current_time)
        votes = Votes(runtime.wall_clock.now_ms)
        observed = BothTelemetry(raft_metrics, votes)
        # Two processes of one configuration have the ports in common too; the folder says more.
        runtime.disk.lock(f"{folder}/{LOCK_FILE}").release()
        async with AsyncExitStack() as stack:
            networks = {
                each.name: _network_of(config, runtime, each.name) for each in config.client_listeners
            }
            clients = [
                await _listen(stack, networks[each.name], each.address) for each in config.client_listeners
            ]
            metrics_network, token = _metrics_network(config, runtime)
            metrics = await _listen_metrics(stack, config, metrics_network)
            quorum = await stack.enter_async_context(
                Quorum.open(
                    config.quorum(cluster_id=meta.cluster_id),
                    metadata,
                    runtime=runtime,
                    telemetry=observed if telemetry is None else BothTelemetry(observed, telemetry),
                )
            )
            if telemetry is not None:
                telemetry.opened(quorum)
            controller = None
            if config.is_controller:
                controller = ControllerNode(
                    config,
                    cluster_id=meta.cluster_id,
                    quorum=quorum,
                    metadata=metadata,
                    runtime=runtime,
                    sealer=sealer,
                    first_records=load_first_records(runtime.disk, folder),
                )
            channel = ControllerChannel(
                quorum, None if controller is None else controller.controller, runtime.entropy
            )
            broker = None
            if config.is_broker:
                directories = await open_directories(
                    runtime,
                    config.log_dirs,
                    cluster_id=meta.cluster_id,
                    node_id=config.node_id,
                    metadata_dir=folder,
                    lock=partial(_lock_log_directory, stack, runtime),
                )
                broker = await BrokerNode.open(
                    config,
                    cluster_id=meta.cluster_id,
                    directories=directories,
                    advertised=_advertised(config, clients),
                    listeners=clients,
                    metadata=metadata,
                    quorum=quorum,
                    channel=channel,
                    runtime=runtime,
                    sealer=sealer,
                )
            registry.register(
                BrokerMetrics(
                    metadata,
                    quorum=quorum,
                    raft=raft_metrics,
                    replicas=None if broker is None else broker.replicas,
                    groups=None if broker is None else broker.groups,
                    controller=controller,
                    now_ms=runtime.wall_clock.now_ms,
                    throttles=None if broker is None else broker.throttles,
                    connections=None if broker is None else broker.connections,
                    logins=dict if broker is None else broker.logins,
                )
            )
            certificates: dict[str, Callable[[], Sequence[CertificateEnd]]] = {
                name: partial(_certificates_of, each) for name, each in networks.items()
            }
            certificates[config.controller_listener_name] = quorum.certificates
            if metrics is not None:
                certificates["metrics"] = partial(_certificates_of, metrics_network)
            registry.register(CertificateMetrics(certificates, now_ms=runtime.wall_clock.now_ms))
            server = cls(
                config=config,
                cluster_id=meta.cluster_id,
                metadata=metadata,
                quorum=quorum,
                controller=controller,
                broker=broker,
                metrics_address=None if metrics is None else metrics.address,
                registry=registry,
            )
            if controller is not None:
                await stack.enter_async_context(
                    controller_clients(
                        config, cluster_id=meta.cluster_id, quorum=quorum, metadata=metadata, channel=channel
                    )
                )
            async with trio.open_nursery() as nursery:
                if metrics is not None:
                    used = partial(_all_of, certificates.values())
                    page = None
                    if config.metrics.page:
                        page = server._page(raft_metrics, votes, runtime, health, used)
                    if page is not None:
                        nursery.start_soon(page.run)
                    serve = partial(
                        serve_metrics, metrics, registry, health=server.health, token=token, site=page
                    )
                    nursery.start_soon(serve)
                if controller is not None:
                    nursery.start_soon(controller.run)
                if broker is None:
                    yield server
                else:
                    async with broker.running():
                        yield server
                nursery.cancel_scope.cancel()

    def _page(
        self,
        raft_metrics: RaftMetrics,
        votes: Votes,
        runtime: Runtime,
        health: PageHealth | None,
        certificates: Callable[[], Sequence[CertificateEnd]],
    ) -> Page:
        replicas = None if self.broker is None else self.broker.replicas
        now_ms = runtime.wall_clock.now_ms
        live = NodeView(
            node_id=self.config.node_id,
            cluster_id=self.cluster_id,
            metadata=self.metadata,
            quorum=self.quorum,
            replicas=replicas,
            recent=recent_of(self.quorum, raft_metrics, replicas, now_ms),
            now_ms=now_ms,
            votes=votes,
            groups=None
            if self.broker is None
            else recent_groups(self.broker.groups, self.broker.replicas, now_ms),
            certificates=certificates,
        )
        return Page(
            Past(NodeLog(self.quorum)),
            live=live,
            place=f"node {self.config.node_id}",
            local_only=is_for_this_machine(self.config.metrics),
            health=health,
            peers=tuple(map(PagePeer.parse, self.config.metrics.page_peers)),
        )

    def health(self) -> NodeHealth:
        """The health of this node: healthy if it takes part in a working quorum and its broker, if it has
        one, serves."""
        broker = self.broker
        if broker is None:
            return node_health(self.quorum, None, None)
        return node_health(self.quorum, broker.lifecycle, broker.replicas)

    async def wait_ready(self) -> None:
        """Return when the quorum has a leader and this node's broker, if it has one, is unfenced."""
        await self.quorum.wait_leader()
        if self.broker is not None:
            await self.broker.lifecycle.wait_unfenced()


def _lock_log_directory(stack: AsyncExitStack, runtime: Runtime, path: str) -> None:
    stack.callback(runtime.disk.lock(f"{path}/{LOCK_FILE}").release)


def _check_folders(config: ServerConfig, runtime: Runtime) -> None:
    """Check that nobody else can put files into the folders of a protected node (CVE-2020-15113). Raises
    `ServerConfigError`."""
    listeners = config.listener_security.values()
    if not (config.authorizer.class_name or config.controller_tls or any(map(_is_protected, listeners))):
        return
    for folder in dict.fromkeys((config.metadata_log_dir, *config.log_dirs)):
        # What is not there, or can't be read, is an error of its own later.
        with suppress(OSError):
            mode = runtime.disk.mode(folder)
            if mode & 0o022:
                raise ServerConfigError(
                    f"others may write to {folder} (its mode is {mode:04o}); chmod go-w it, and look at what "
                    "is in it",
                    key="log.dirs",
                )


def _is_protected(security: ListenerSecurity) -> bool:
    return security.protocol is not SecurityProtocol.PLAINTEXT


def _sealer_of(config: ServerConfig, runtime: Runtime) -> Sealer | None:
    """Return the sealer of users' keys; None without the setting. Raises `ServerConfigError`."""
    path = config.credentials.sealing_key
    if path:
        try:
            return Sealer(runtime.disk, path)
        except SealingFileError as error:
            raise ServerConfigError(str(error)) from error
    if config.authorizer.class_name or any(each.protocol.sasl for each in config.listener_security.values()):
        log.warning(
            "the keys of users are not sealed: who can read the metadata log can pose as a user",
            remedy=f"make a file with `quorate users create-key`, and set {SETTING} on every node",
        )
    return None


def _network_of(config: ServerConfig, runtime: Runtime, listener: str) -> Network:
    """Return the network of a listener for clients. Raises `ServerConfigError`."""
    security = config.listener_security[listener]
    if security.tls is None:
        return runtime.network
    try:
        return runtime.network.secured(security.tls, security.terms)
    except TlsFilesError as error:
        raise ServerConfigError(f"listener {listener}: {error}") from error


def _certificates_of(network: Network) -> Sequence[CertificateEnd]:
    return network.certificates


def _all_of(listeners: Iterable[Callable[[], Sequence[CertificateEnd]]]) -> Sequence[CertificateEnd]:
    return [each for certificates in listeners for each in certificates()]


async def _listen(stack: AsyncExitStack, network: Network, address: Address) -> Listener:
    host = address.host or "0.0.0.0"
    listener = await network.listen(Address(host, address.port))
    stack.callback(listener.close)
    return listener


def _metrics_network(config: ServerConfig, runtime: Runtime) -> tuple[Network, TokenFile | None]:
    """Return the network of the metrics endpoint, and the token that it asks for. Raises
    `ServerConfigError`."""
    path, tls = config.metrics.token_file, metrics_tls(config.metrics)
    try:
        token = TokenFile(runtime.disk, path) if path else None
        return runtime.network if tls is None else runtime.network.secured(*tls), token
    except (TlsFilesError, TokenFileError) as error:
        raise ServerConfigError(f"the metrics endpoint: {error}") from error


async def _listen_metrics(stack: AsyncExitStack, config: ServerConfig, network: Network) -> Listener | None:
    port = config.metrics.port
    if port < 0:
        return None
    return await _listen(stack, network, Address(config.metrics.host, port))


def _advertised(config: ServerConfig, listeners: list[Listener]) -> tuple[BrokerEndpoint, ...]:
    """The advertised endpoints, with the ports that were bound where the file says 0."""
    bound = {
        asked.name: listener.address.port
        for asked, listener in zip(config.client_listeners, listeners, strict=True)
    }
    return tuple(
        replace(each, port=bound[each.name]) if each.port == 0 else each for each in config.advertised
    )
