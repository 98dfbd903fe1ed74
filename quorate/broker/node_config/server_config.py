"""The configuration of a node, read from `server.properties`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Final

from quorate.broker.metadata.configs import StaticConfig
from quorate.broker.metadata.metadata_records import MAX_DIRECTORIES, MAX_LISTENERS, BrokerEndpoint
from quorate.broker.node_config.listener_protection import protections
from quorate.broker.node_config.metrics_protection import check_metrics
from quorate.broker.node_config.properties_file import PropertyValues, read_lines
from quorate.broker.settings.all_keys import BROKER_KEYS, DYNAMIC_KEYS
from quorate.broker.settings.authorizer_settings import AuthorizerSettings
from quorate.broker.settings.broker_settings import (
    HEARTBEAT_INTERVAL,
    SESSION_TIMEOUT,
    ControllerTuning,
    LeaderBalance,
    LifecycleTimes,
    ShutdownSettings,
    TopicSettings,
)
from quorate.broker.settings.client_settings import KafkaServerConfig
from quorate.broker.settings.config_key import TypedKey
from quorate.broker.settings.credential_settings import CredentialSettings
from quorate.broker.settings.group_config import GroupConfig
from quorate.broker.settings.node_keys import (
    QUORUM_FETCH_TIMEOUT,
    DebugSettings,
    DirectoryKeys,
    MetricsSettings,
    NodeKeys,
    QuorumSettings,
)
from quorate.broker.settings.registered_names import MAX_REGISTERED_NAME
from quorate.broker.settings.replication_config import ReplicationConfig
from quorate.broker.settings.setting import nested, read_fields
from quorate.broker.wire.listener_security import ListenerSecurity
from quorate.quorum_state import SERVER
from quorate.raft import HIGH_WATERMARK_WAIT_MS, QuorumConfig, QuorumConfigError, parse_voters
from quorate.raft.core import CoreConfig
from quorate.runtime import Address, TlsFiles, TlsUse
from quorate.types import Endpoint, NodeId, VoterSet

_ANY_HOST: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundListener:
    """The name of a listener and the address that it binds. An empty host is every interface."""

    name: str
    address: Address


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The validated configuration of a node, with the settings of each of its parts."""

    values: Mapping[str, str] = field(repr=False)
    """The value of every key: from the file, else the default."""
    static: StaticConfig
    """The keys in the file that set defaults of topics or may change while the node runs."""
    from_file: frozenset[str]
    """The names of all keys that the file sets."""
    is_broker: bool
    is_controller: bool
    node_id: NodeId
    rack: str | None
    client_listeners: tuple[BoundListener, ...]
    advertised: tuple[BrokerEndpoint, ...]
    """The endpoints that this broker registers. A port of 0 is replaced by the bound one."""
    controller_listener: BoundListener | None
    """The listener of the quorum. None: this node is not a controller."""
    controller_advertised: Endpoint | None
    """The endpoint that other nodes use to reach this controller. None: as `voters` says, or this node is not
    a controller."""
    inter_broker_listener: str
    listener_security: Mapping[str, ListenerSecurity]
    """The protection of each listener for clients, by name."""
    controller_tls: TlsFiles | None
    """The files by which this node and the controllers know each other. None: they don't."""
    controller_tls_use: TlsUse
    inter_broker_tls: TlsFiles | None
    """The files by which this broker and the others know each other. None: they don't."""
    voters: VoterSet
    """The static voter set. Empty: the voter set is in the log."""
    bootstrap: tuple[Endpoint, ...]
    """The controllers that this node asks for the leader."""
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    authorizer: AuthorizerSettings = nested(AuthorizerSettings)
    credentials: CredentialSettings = nested(CredentialSettings)
    raft: QuorumSettings = nested(QuorumSettings)
    topics: TopicSettings = nested(TopicSettings)
    lifecycle: LifecycleTimes = nested(LifecycleTimes)
    controller: ControllerTuning = nested(ControllerTuning)
    shutdown: ShutdownSettings = nested(ShutdownSettings)
    balance: LeaderBalance = nested(LeaderBalance)
    replication: ReplicationConfig = nested(ReplicationConfig)
    wire: KafkaServerConfig = nested(KafkaServerConfig)
    groups: GroupConfig = nested(GroupConfig)
    metrics: MetricsSettings = nested(MetricsSettings)
    debug: DebugSettings = nested(DebugSettings)

    @classmethod
    def parse(cls, text: str) -> "ServerConfig":
        """Parse the text of a properties file. Raises `ServerConfigError`."""
        return _build(PropertyValues(read_lines(text)))

    def with_dynamic(self, values: Mapping[str, str]) -> "ServerConfig":
        """Return the configuration with `values` in place of the file's, which go on being `static`."""
        merged = MappingProxyType({**self.values, **values})
        return replace(self, values=merged, **read_fields(ServerConfig, merged))

    @property
    def controller_listener_name(self) -> str:
        """The listener name of the controllers in AddRaftVoter and UpdateRaftVoter (KIP-853)."""
        return self.values[NodeKeys.CONTROLLER_LISTENER_NAMES.name].partition(",")[0].strip()

    def quorum(self, *, cluster_id: str) -> QuorumConfig:
        """Return the configuration of this node's quorum."""
        listener, raft = self.controller_listener, self.raft
        return QuorumConfig(
            node_id=self.node_id,
            cluster_id=cluster_id,
            folder=self.metadata_log_dir,
            voters=self.voters,
            bootstrap=self.bootstrap,
            observer=not self.is_controller,
            listen=None
            if listener is None
            else Address(listener.address.host or "0.0.0.0", listener.address.port),
            advertised=self.controller_advertised,
            tls=self.controller_tls,
            tls_use=self.controller_tls_use,
            auto_join=raft.auto_join,
            core=self.core(),
            segment_bytes=raft.segment_bytes,
            snapshot_max_new_bytes=raft.snapshot_max_new_bytes,
            snapshot_max_interval_ms=raft.snapshot_max_interval_ms,
            retention_bytes=raft.retention_bytes,
            retention_ms=raft.retention_ms,
            # Only the active controller appends. Other nodes send it requests.
            remote_appends=False,
            names=SERVER,
        )

    def core(self) -> CoreConfig:
        raft = self.raft
        return CoreConfig(
            election_timeout_ms=raft.election_timeout_ms,
            fetch_timeout_ms=raft.fetch_timeout_ms,
            election_backoff_max_ms=raft.election_backoff_max_ms,
            request_timeout_ms=raft.request_timeout_ms,
            retry_backoff_ms=raft.retry_backoff_ms,
            fetch_max_bytes=raft.fetch_max_bytes,
            # An idle leader must not look dead, however short the timeout is (fixed at 500 ms in Kafka).
            fetch_max_wait_ms=min(500, raft.fetch_timeout_ms // 2),
            high_watermark_wait_ms=HIGH_WATERMARK_WAIT_MS,
        )


def _build(values: PropertyValues) -> ServerConfig:
    if not values.has(NodeKeys.NODE_ID) and values.has(NodeKeys.BROKER_ID):
        node_id = values.get(NodeKeys.BROKER_ID)
    else:
        node_id = values.required(NodeKeys.NODE_ID)
    if values.get(NodeKeys.BROKER_ID) not in (-1, node_id):
        raise values.error(NodeKeys.BROKER_ID, f"it differs from node.id ({node_id}); remove broker.id")
    if node_id < 0:
        raise values.error(NodeKeys.BROKER_ID, "it must be 0 or more; set node.id instead")
    roles = values.required(NodeKeys.PROCESS_ROLES)
    is_broker, is_controller = "broker" in roles, "controller" in roles
    controller_names = values.required(NodeKeys.CONTROLLER_LISTENER_NAMES)
    voters, bootstrap = _quorum(values, NodeId(node_id), is_controller=is_controller)
    bound = _listeners(values, NodeKeys.LISTENERS)
    controller = [each for each in bound if each.name in controller_names]
    clients = tuple(each for each in bound if each.name not in controller_names)
    if is_controller and len(controller) != 1:
        raise values.error(
            NodeKeys.LISTENERS,
            "a controller needs exactly one listener of controller.listener.names "
            f"({', '.join(controller_names)})",
        )
    if not is_controller and controller:
        raise values.error(
            NodeKeys.LISTENERS,
            f"{controller[0].name} is a controller's listener; remove it, or add controller to process.roles",
        )
    if is_broker and not clients:
        raise values.error(
            NodeKeys.LISTENERS, "a broker needs a listener for clients, such as PLAINTEXT://:9092"
        )
    by_name = _advertised(values, bound)
    named = tuple(each for each in by_name.values() if each.name not in controller_names)
    advertised = (named or tuple(map(_as_bound, clients))) if is_broker else ()
    inter_broker = values.get(NodeKeys.INTER_BROKER_LISTENER) or (advertised[0].name if advertised else "")
    if is_broker and inter_broker not in [each.name for each in advertised]:
        raise values.error(
            NodeKeys.INTER_BROKER_LISTENER, f"{inter_broker} is not in advertised.listeners; add it"
        )
    protected = protections(
        values,
        list(dict.fromkeys([*(each.name for each in bound), *controller_names])),
        between_nodes=[*controller_names, *([inter_broker] if is_broker else [])],
    )
    log_dirs = tuple(
        str(PurePosixPath(item))
        for item in values.get(DirectoryKeys.LOG_DIRS) or values.get(DirectoryKeys.LOG_DIR)
    )
    if len(log_dirs) > MAX_DIRECTORIES:
        raise values.error(
            DirectoryKeys.LOG_DIRS, f"it names {len(log_dirs)} directories; {MAX_DIRECTORIES} are allowed"
        )
    if len(set(log_dirs)) < len(log_dirs):
        raise values.error(DirectoryKeys.LOG_DIRS, "it names a directory twice; name each once")
    if not log_dirs:
        raise values.error(DirectoryKeys.LOG_DIRS, "it names no directory; set log.dirs")
    if values.get(QUORUM_FETCH_TIMEOUT) < 2:
        raise values.error(QUORUM_FETCH_TIMEOUT, "it must be at least 2")
    if values.get(SESSION_TIMEOUT) <= values.get(HEARTBEAT_INTERVAL):
        raise values.error(
            SESSION_TIMEOUT,
            "it must be more than broker.heartbeat.interval.ms; otherwise brokers are fenced between two "
            "heartbeats",
        )
    check_metrics(values)
    return ServerConfig(
        values=MappingProxyType(values.all),
        static=StaticConfig(
            {
                name: line.value
                for name, line in values.lines.items()
                if name in BROKER_KEYS or name in DYNAMIC_KEYS
            },
            node_id=node_id,
        ),
        from_file=frozenset(values.lines),
        is_broker=is_broker,
        is_controller=is_controller,
        node_id=NodeId(node_id),
        rack=values.get(NodeKeys.RACK) or None,
        client_listeners=clients,
        advertised=advertised,
        controller_listener=controller[0] if controller else None,
        controller_advertised=_controller_endpoint(controller[0], by_name, voters, NodeId(node_id))
        if controller
        else None,
        inter_broker_listener=inter_broker,
        listener_security=MappingProxyType({each.name: protected[each.name] for each in clients}),
        controller_tls=protected[controller_names[0]].tls,
        controller_tls_use=_tls_use(values, controller_names[0], protected[controller_names[0]]),
        inter_broker_tls=protected[inter_broker].tls if is_broker else None,
        voters=voters,
        bootstrap=bootstrap,
        log_dirs=log_dirs,
        metadata_log_dir=values.get(DirectoryKeys.METADATA_LOG_DIR) or log_dirs[0],
        **read_fields(ServerConfig, values.all),
    )


def _tls_use(values: PropertyValues, name: str, security: ListenerSecurity) -> TlsUse:
    use = TlsUse(values.get(NodeKeys.CONTROLLER_TLS_USE))
    if use is not TlsUse.REQUIRED and security.tls is None:
        raise values.error(
            NodeKeys.CONTROLLER_TLS_USE,
            f"{name} has protocol {security.protocol.value}, so that it can't speak TLS; give it SSL in "
            "listener.security.protocol.map, or remove this key",
        )
    return use


def _listeners(values: PropertyValues, key: TypedKey[tuple[str, ...]]) -> tuple[BoundListener, ...]:
    found: list[BoundListener] = []
    for item in values.get(key):
        listener_name, separator, rest = item.partition("://")
        host, colon, port = rest.rpartition(":")
        if not separator or not listener_name or not colon or not port.isdecimal() or int(port) > 65535:
            raise values.error(key, f"{item!r} is not NAME://host:port")
        if any(each.name == listener_name for each in found):
            raise values.error(key, f"{listener_name} is there twice; give each listener its own name")
        host = host.removeprefix("[").removesuffix("]")
        if max(len(listener_name), len(host)) > MAX_REGISTERED_NAME:
            raise values.error(key, f"a name or host has more than {MAX_REGISTERED_NAME} characters")
        found.append(BoundListener(name=listener_name, address=Address(host, int(port))))
    if len(found) > MAX_LISTENERS:
        raise values.error(key, f"it has {len(found)} listeners; {MAX_LISTENERS} are allowed")
    return tuple(found)


def _quorum(
    values: PropertyValues, node_id: NodeId, *, is_controller: bool
) -> tuple[VoterSet, tuple[Endpoint, ...]]:
    """Return the static voters and the bootstrap servers. At least one of the two is set."""
    voters_key, bootstrap_key = NodeKeys.VOTERS, NodeKeys.BOOTSTRAP_SERVERS
    try:
        voters = parse_voters(values.all[voters_key.name])
    except QuorumConfigError as error:
        raise values.error(voters_key, str(error)) from error
    bootstrap: list[Endpoint] = []
    for item in values.get(bootstrap_key):
        try:
            address = Address.parse(item)
        except ValueError as error:
            raise values.error(bootstrap_key, f"{error}; write host:port") from error
        bootstrap.append(Endpoint(address.host, address.port))
    if not voters and not bootstrap:
        raise values.error(
            bootstrap_key if values.has(bootstrap_key) else voters_key,
            f"no node is named that this one could ask for the leader; add a line such as "
            f"{bootstrap_key.name}=localhost:9093, or for a static quorum "
            f"{voters_key.name}=1@localhost:9093",
        )
    if not bootstrap and is_controller and node_id not in voters:
        raise values.error(
            voters_key,
            f"node {node_id} is a controller but not in it; add it, or set {bootstrap_key.name} if the "
            "quorum keeps its voters in the log",
        )
    if not is_controller and node_id in voters:
        raise values.error(
            voters_key, f"it names node {node_id}, which is not a controller; add controller to process.roles"
        )
    return voters, tuple(bootstrap)


def _advertised(values: PropertyValues, bound: tuple[BoundListener, ...]) -> Mapping[str, BrokerEndpoint]:
    """Return the entries of advertised.listeners by name."""
    key = NodeKeys.ADVERTISED_LISTENERS
    asked = _listeners(values, key)
    for each in asked:
        if each.name not in [listener.name for listener in bound]:
            raise values.error(key, f"{each.name} is not in listeners; add it there")
        if each.address.host in _ANY_HOST:
            raise values.error(key, f"{each.name} names no host; other nodes need one to reach this node")
    return {
        each.name: BrokerEndpoint(name=each.name, host=each.address.host, port=each.address.port)
        for each in asked
    }


def _as_bound(listener: BoundListener) -> BrokerEndpoint:
    address = listener.address
    return BrokerEndpoint(
        name=listener.name,
        host="localhost" if address.host in _ANY_HOST else address.host,
        port=address.port,
    )


def _controller_endpoint(
    listener: BoundListener,
    advertised: Mapping[str, BrokerEndpoint],
    voters: VoterSet,
    node_id: NodeId,
) -> Endpoint | None:
    """Return this controller's endpoint. None: the static voters state it."""
    if listener.name not in advertised and node_id in voters:
        return None
    where = advertised.get(listener.name) or _as_bound(listener)
    return Endpoint(where.host, where.port)
