"""The options of `format("quorate")`, named as those of Spark's Kafka source."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from quorate.history import METADATA_TOPIC
from quorate.runtime import Address
from quorate.spark_source.spark_errors import OptionError
from quorate.spark_source.warnings_log import get_logger

log = get_logger(__name__)


class Edge(enum.Enum):
    """An end of the log."""

    EARLIEST = "earliest"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffset:
    """This offset: inclusive as a start, exclusive as an end."""

    offset: int


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """The first offset with a timestamp (ms since the Unix epoch) at or after this."""

    timestamp_ms: int


Bound: TypeAlias = Edge | AtOffset | AtTimestamp


class ViewName(enum.Enum):
    RECORDS = "records"
    """Every record as it is in the log."""
    DECODED = "decoded"
    """Every record with its fields."""
    CHANGES = "changes"
    """Every change of every entity, in one pass."""
    PARTITIONS = "partitions"
    TOPICS = "topics"
    BROKERS = "brokers"
    CONFIGS = "configs"
    QUOTAS = "quotas"
    FEATURES = "features"
    QUORUM = "quorum"
    """The state of the entity, or with `readChangeFeed` its changes."""

    @property
    def entity(self) -> str | None:
        """The name of the entity that this shows. None: it shows none, or all."""
        if self in (ViewName.RECORDS, ViewName.DECODED, ViewName.CHANGES):
            return None
        return str(self.value).removesuffix("s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Checked options."""

    path: str | None = None
    """A node's folder, or its `__cluster_metadata-0`."""
    bootstrap_servers: tuple[Address, ...] = ()
    view: ViewName = ViewName.RECORDS
    read_change_feed: bool = False
    """True: the changes of an entity in place of its state."""
    as_of: Bound | None = None
    """State only: `AtOffset` with the last record (inclusive), or `AtTimestamp` with the latest time. None:
    the end."""
    starting: Bound | None = None
    """None: earliest for a batch query, latest for a stream, as Spark's Kafka source."""
    starting_or_latest: bool = False
    """True: without a record at or after the starting timestamp, begin at the end instead of failing."""
    ending: Bound | None = None
    """Batch queries only. None: latest."""
    max_offsets_per_trigger: int | None = None
    """Streams only."""
    min_offsets_per_trigger: int | None = None
    """Streams only: a batch waits until it has so many offsets, or `max_trigger_delay_ms` have passed since
    the last one."""
    max_trigger_delay_ms: int = 15 * 60 * 1000
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    mark_unknown: bool = False
    """True: a row for a record of a later version of quorate, in place of an error."""
    push_filters: bool | None = None
    """Batch queries only: let Spark pass filters to the source. None: as the source was registered."""
    include_control: bool = False
    """True: the records view has the records of Raft itself too (LeaderChange, KRaftVoters, ...)."""
    read_uncommitted: bool = False
    """True: read a folder beyond its persisted high watermark. Records there may still be truncated."""
    retries: int = 10
    """The number of further tries of all brokers before a read fails."""
    retry_interval_ms: int = 300
    request_timeout_ms: int = 5_000
    protection: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The settings of Kafka's clients for a protected cluster, without the prefix `kafka.`."""

    @property
    def shows_state(self) -> bool:
        """True for the state of an entity."""
        return self.view.entity is not None and not self.read_change_feed

    @property
    def client_options(self) -> Mapping[str, object]:
        """The options that only a live cluster uses, by name."""
        return {
            "fetchOffset.numRetries": self.retries,
            "fetchOffset.retryIntervalMs": self.retry_interval_ms,
            "kafka.request.timeout.ms": self.request_timeout_ms,
        }


class Option(NamedTuple):
    """An option as the reference shows it."""

    name: str
    default: str
    """Markdown, as `meaning` is. Empty: it has none."""
    meaning: str


OPTIONS: Final = (
    Option("path", "", "a node's folder, or its `__cluster_metadata-0`. The node may be running"),
    Option("bootstrapServers", "", "brokers, `host:port` separated by commas"),
    Option("kafka.bootstrap.servers", "", "another name of `bootstrapServers`"),
    Option("view", "`records`; with `readChangeFeed` `changes`", "see above"),
    Option("readChangeFeed", "`false`", "true: the changes of an entity in place of its state"),
    Option("versionAsOf", "the end", "states only: the offset of the last record (inclusive)"),
    Option(
        "timestampAsOf",
        "the end",
        "states only: ms since the Unix epoch, or a time such as `2026-11-22T17:40:00+01:00`; without a "
        "zone it is in UTC. The first record that is later ends the state",
    ),
    Option(
        "startingOffsets",
        "`earliest` in batch, `latest` in a stream",
        '`earliest`, `latest`, an offset (inclusive), or `{"__cluster_metadata": {"0": N}}`',
    ),
    Option(
        "startingTimestamp",
        "",
        "ms since the Unix epoch. The query starts at the first record that is not earlier, or with the "
        "snapshot if that record may be one of those that it stands for",
    ),
    Option(
        "startingOffsetsByTimestamp",
        "",
        'the same as JSON, as Kafka has it: `{"__cluster_metadata": {"0": MS}}`',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        "`error`",
        "the behaviour if every record is earlier. `error`: the query fails. `latest`: it starts at the end",
    ),
    Option("endingOffsets", "`latest`", "batch only, exclusive: as `startingOffsets`"),
    Option("endingTimestamp", "", "batch only, exclusive: as `startingTimestamp`"),
    Option("endingOffsetsByTimestamp", "", "batch only, exclusive: as `startingOffsetsByTimestamp`"),
    Option(
        "maxOffsetsPerTrigger",
        "",
        "streams only. Records that make no row of the view before the first that does are not counted. A "
        "batch of the log is not cut, and one that is larger comes whole",
    ),
    Option(
        "minOffsetsPerTrigger",
        "",
        "streams only: a batch waits until there are so many offsets. `availableNow` does not wait",
    ),
    Option(
        "maxTriggerDelay",
        "`15m`",
        "the longest wait for `minOffsetsPerTrigger`. It begins anew when the query is restarted",
    ),
    Option(
        "minPartitions",
        "the number of cores, for a long range",
        "the number of Spark partitions of `records` and `decoded` (at least), and of `changes` and "
        "`partitions`",
    ),
    Option("failOnDataLoss", "`true`", "true: missing records fail the query, see below"),
    Option(
        "unknownRecords",
        "`fail`",
        "the behaviour of all views but `records` at a record of a later version of quorate. `fail`: an "
        "error. `mark`: a change feed has a row with the `_change_type` `unknown`, `decoded` one with the "
        "type `Unknown`, and a state is without what the record says",
    ),
    Option(
        "pushFilters",
        "`false`",
        "batch only: true lets Spark pass filters to the source. The session needs "
        "`spark.sql.python.filterPushdown.enabled=true`",
    ),
    Option("includeControl", "`false`", "true: include Raft's control records. `view=records` only"),
    Option(
        "readUncommitted",
        "`false`",
        "true: read beyond the high watermark of the folder, up to the first damage. `path` only",
    ),
    Option("fetchOffset.numRetries", "10", "the number of further attempts to reach a broker"),
    Option("fetchOffset.retryIntervalMs", "300", "the pause between two attempts"),
    Option("kafka.request.timeout.ms", "5000", "the time limit of a request"),
    Option(
        "kafka.security.protocol",
        "`PLAINTEXT`",
        "`SSL`, `SASL_PLAINTEXT` or `SASL_SSL`, as the listener has it. Further keys are those of Kafka's "
        "clients; each machine with an executor needs the files at the same paths",
    ),
    Option("kafka.ssl.truststore.location", "the system's", "the authorities of the cluster (PEM)"),
    Option("kafka.ssl.keystore.location", "", "the certificate and the key of this client (PEM)"),
    Option("kafka.sasl.mechanism", "", "`SCRAM-SHA-512`, `SCRAM-SHA-256` or `PLAIN`"),
    Option("kafka.sasl.jaas.config", "", "the name and the password, as Java's clients have them"),
)
"""All of them, in the order in which a user meets them."""
_BY_LOWER: Final = {each.name.lower(): each.name for each in OPTIONS}
_IDLE: Final = (
    "groupIdPrefix",
    "includeHeaders",
    "kafkaConsumer.pollTimeoutMs",
    "maxRecordsPerPartition",
)
"""Options of Spark's Kafka source that have no meaning here, and do no harm. So do those of Kafka's consumer,
`kafka.*`, that say nothing of security."""
_PROTECTION: Final = ("kafka.security.", "kafka.ssl.", "kafka.sasl.")
_SUBSCRIPTIONS: Final = ("subscribe", "subscribePattern", "assign")
_TIMES: Final = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000}


class _Given:
    """The options as given, by their proper names."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in raw.items():
            proper = _BY_LOWER.get(name.lower())
            if proper is None and name.lower().startswith(_PROTECTION):
                proper = name.lower()
            if proper is not None:
                self._values[proper] = str(value).strip()
            elif not _is_of_kafka_source(name, str(value)):
                raise OptionError(f"unknown option {name!r}; known are {', '.join(_BY_LOWER.values())}")
            else:
                log.warning(
                    "the option %s of Spark's Kafka source means nothing for %s", name, METADATA_TOPIC
                )

    def get(self, name: str) -> str | None:
        return self._values.get(name)

    def protection(self) -> tuple[tuple[str, str], ...]:
        return tuple(
            (name.removeprefix("kafka."), value)
            for name, value in sorted(self._values.items())
            if name.startswith(_PROTECTION)
        )

    def text(self, name: str) -> str | None:
        value = self.get(name)
        if value == "":
            raise OptionError(f"{name} is empty; leave it out or give it a value")
        return value

    def exclusive(self, *names: str) -> None:
        given = [name for name in names if name in self._values]
        if len(given) > 1:
            raise OptionError(f"{' and '.join(given)} contradict each other; give one of them")

    def flag(self, name: str, default: bool) -> bool:
        value = self.flag_if_given(name)
        return default if value is None else value

    def flag_if_given(self, name: str) -> bool | None:
        value = self.get(name)
        if value is None:
            return None
        if value.lower() not in ("true", "false"):
            raise OptionError(f"{name} is {value!r}; it must be true or false")
        return value.lower() == "true"

    def milliseconds(self, name: str) -> int | None:
        """A length of time, as Spark writes it: 500ms, 5s, 15m, 1h; a bare number counts ms."""
        value = self.get(name)
        if value is None:
            return None
        number = value.rstrip("abcdefghijklmnopqrstuvwxyz ")
        unit = value[len(number) :].strip()
        if not (number.isascii() and number.isdigit()) or (unit and unit not in _TIMES):
            raise OptionError(f"{name} is {value!r}; it must be a time such as 500ms, 5s, 15m or 1h")
        return int(number) * _TIMES[unit or "ms"]

    def integer(self, name: str, *, low: int) -> int | None:
        value = self.get(name)
        if value is None:
            return None
        if not (value.isascii() and value.removeprefix("-").isdigit()) or int(value) < low:
            raise OptionError(f"{name} is {value!r}; it must be an integer, at least {low}")
        return int(value)


def parse_options(raw: Mapping[str, str]) -> SourceOptions:
    """Raises `OptionError`. Names are compared without case, as Spark does."""
    given = _Given(raw)
    given.exclusive("path", "bootstrapServers", "kafka.bootstrap.servers")
    # Spark's Kafka source takes the first of these and is silent about the others.
    given.exclusive("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
    given.exclusive("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
    given.exclusive("versionAsOf", "timestampAsOf")
    path, servers = given.text("path"), _servers(given)
    defaults = SourceOptions()
    if path is None and not servers:
        raise OptionError(
            "give either path (a node's folder) or bootstrapServers (host:port of brokers, comma-separated)"
        )
    if servers and given.flag("readUncommitted", False):
        raise OptionError("readUncommitted is for path only: brokers serve what is committed")
    for name in defaults.client_options:
        if path is not None and given.get(name) is not None:
            raise OptionError(f"{name} is for bootstrapServers only; leave it out with path")
    protection = given.protection()
    if path is not None and protection:
        raise OptionError(f"kafka.{protection[0][0]} is for bootstrapServers only; leave it out with path")
    retries = given.integer("fetchOffset.numRetries", low=0)
    interval = given.integer("fetchOffset.retryIntervalMs", low=0)
    request_timeout = given.integer("kafka.request.timeout.ms", low=1)
    least, most = given.integer("minOffsetsPerTrigger", low=1), given.integer("maxOffsetsPerTrigger", low=1)
    if least is not None and most is not None and least > most:
        raise OptionError(f"minOffsetsPerTrigger is {least}, more than maxOffsetsPerTrigger, which is {most}")
    delay = given.milliseconds("maxTriggerDelay")
    options = SourceOptions(
        path=None if path is None else path.removeprefix("file://").removeprefix("file:"),
        bootstrap_servers=servers,
        view=_view(given),
        read_change_feed=given.flag("readChangeFeed", False),
        as_of=_as_of(given),
        starting=_bound(given, "starting"),
        starting_or_latest=_strategy(given),
        ending=_bound(given, "ending"),
        max_offsets_per_trigger=most,
        min_offsets_per_trigger=least,
        max_trigger_delay_ms=defaults.max_trigger_delay_ms if delay is None else delay,
        min_partitions=given.integer("minPartitions", low=1),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        mark_unknown=_mark_unknown(given),
        push_filters=given.flag_if_given("pushFilters"),
        include_control=_include_control(given),
        read_uncommitted=given.flag("readUncommitted", False),
        retries=defaults.retries if retries is None else retries,
        retry_interval_ms=defaults.retry_interval_ms if interval is None else interval,
        request_timeout_ms=defaults.request_timeout_ms if request_timeout is None else request_timeout,
        protection=protection,
    )
    _check_together(options)
    return options


def _check_together(options: SourceOptions) -> None:
    view = options.view.value
    if options.read_change_feed and options.view in (ViewName.RECORDS, ViewName.DECODED):
        raise OptionError(f"readChangeFeed is for the views of entities and for changes, not for view={view}")
    if options.as_of is not None and not options.shows_state:
        raise OptionError(
            "versionAsOf and timestampAsOf are for the state of an entity, such as view=partitions without "
            "readChangeFeed; bound other queries with endingOffsets"
        )
    if options.shows_state and (options.starting is not None or options.ending is not None):
        raise OptionError(
            f"view={view} is a state, at versionAsOf or timestampAsOf; startingOffsets and endingOffsets are "
            "for its changes: add readChangeFeed=true"
        )


def for_batch(options: SourceOptions) -> SourceOptions:
    """Raises `OptionError` for what only a stream has."""
    for name, value in (
        ("maxOffsetsPerTrigger", options.max_offsets_per_trigger),
        ("minOffsetsPerTrigger", options.min_offsets_per_trigger),
    ):
        if value is not None:
            log.warning("%s is for streams, and means nothing in a batch query", name)
    if options.starting is Edge.LATEST:
        raise OptionError(
            "startingOffsets may not be latest in a batch query: there would be nothing to read"
        )
    return options


def for_stream(options: SourceOptions) -> SourceOptions:
    """Raises `OptionError` for what only a batch query has."""
    if options.shows_state:
        raise OptionError(
            f"view={options.view.value} is a state, which a stream does not have; add readChangeFeed=true "
            "for its changes"
        )
    if options.ending is not None:
        raise OptionError(
            "endingOffsets and endingTimestamp are for batch queries; stop a stream by its trigger "
            "(availableNow) or the query's stop()"
        )
    return options


def _servers(given: _Given) -> tuple[Address, ...]:
    name = "bootstrapServers" if given.get("bootstrapServers") is not None else "kafka.bootstrap.servers"
    text = given.text(name)
    if text is None:
        return ()
    try:
        return tuple(Address.parse(each) for each in text.split(","))
    except ValueError as error:
        raise OptionError(f"{name}: {error}") from error


def _view(given: _Given) -> ViewName:
    text = given.get("view")
    if text is None:
        return ViewName.CHANGES if given.flag("readChangeFeed", False) else ViewName.RECORDS
    try:
        return ViewName(text.lower())
    except ValueError:
        views = ", ".join(view.value for view in ViewName)
        raise OptionError(f"view is {text!r}; it must be one of {views}") from None


def _include_control(given: _Given) -> bool:
    wanted = given.flag("includeControl", False)
    if wanted and _view(given) is not ViewName.RECORDS:
        raise OptionError("includeControl is for view=records only: the other views have no such rows")
    return wanted


def _strategy(given: _Given) -> bool:
    name = "startingOffsetsByTimestampStrategy"
    text = given.get(name)
    if text is None:
        return False
    if given.get("startingTimestamp") is None and given.get("startingOffsetsByTimestamp") is None:
        raise OptionError(f"{name} needs startingTimestamp or startingOffsetsByTimestamp")
    if text.lower() not in ("error", "latest"):
        raise OptionError(f"{name} is {text!r}; it must be error or latest")
    return text.lower() == "latest"


def _bound(given: _Given, end: str) -> Bound | None:
    timestamp = given.integer(f"{end}Timestamp", low=0)
    if timestamp is not None:
        return AtTimestamp(timestamp)
    name = f"{end}OffsetsByTimestamp"
    text = given.text(name)
    if text is not None:
        at = _of_the_partition(text)
        if at is None or at < 0:
            raise OptionError(
                f'{name} is {text!r}; it must be {{"{METADATA_TOPIC}": {{"0": MS_SINCE_1970}}}}'
            )
        return AtTimestamp(at)
    name = f"{end}Offsets"
    text = given.text(name)
    if text is None:
        return None
    bound = _parse_offset(name, text)
    if end == "ending" and bound is Edge.EARLIEST:
        raise OptionError(f"{name} may not be earliest: there would be nothing to read")
    return bound


def _parse_offset(name: str, text: str) -> Bound:
    lowered = text.lower()
    if lowered in ("earliest", "latest"):
        return Edge(lowered)
    problem = (
        f"{name} is {text!r}; it must be earliest, latest, an offset, or "
        f'{{"{METADATA_TOPIC}": {{"0": OFFSET}}}} with -2 for earliest and -1 for latest'
    )
    if text.isascii() and text.isdigit():
        return AtOffset(int(text))
    match _of_the_partition(text):
        case -2:
            return Edge.EARLIEST
        case -1:
            return Edge.LATEST
        case int(offset) if offset >= 0:
            return AtOffset(offset)
    raise OptionError(problem)


def _of_the_partition(text: str) -> int | None:
    """The number that Kafka's JSON of topics and partitions gives the only partition. None: it gives none."""
    try:
        raw: object = json.loads(text)
    except ValueError:
        return None
    match raw:
        case {**topics} if list(topics) == [METADATA_TOPIC]:
            match topics[METADATA_TOPIC]:
                case {**partitions} if list(partitions) == ["0"]:
                    match partitions["0"]:
                        case int(number) if not isinstance(number, bool):
                            return number
    return None


def _as_of(given: _Given) -> Bound | None:
    offset = given.integer("versionAsOf", low=0)
    if offset is not None:
        return AtOffset(offset)
    text = given.text("timestampAsOf")
    if text is None:
        return None
    if text.isascii() and text.isdigit():
        return AtTimestamp(int(text))
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise OptionError(
            f"timestampAsOf is {text!r}; it must be ms since 1970, or a time such as "
            "2026-11-22T17:40:00+01:00"
        ) from None
    # A time without a zone is of UTC, whatever the zone of the worker that reads it.
    return AtTimestamp(int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000))


def _mark_unknown(given: _Given) -> bool:
    text = given.get("unknownRecords")
    if text is not None and text.lower() not in ("fail", "mark"):
        raise OptionError(f"unknownRecords is {text!r}; it must be fail or mark")
    return text is not None and text.lower() == "mark"


def _is_of_kafka_source(name: str, value: str) -> bool:
    """True for an option of Spark's Kafka source that changes nothing here. Raises `OptionError` for one that
    would."""
    lowered = name.lower()
    if lowered in (each.lower() for each in _SUBSCRIPTIONS):
        if METADATA_TOPIC not in value:
            raise OptionError(
                f"{name} is {value!r}; this source reads {METADATA_TOPIC} only: leave {name} out"
            )
        return True
    return lowered.startswith("kafka.") or lowered in (each.lower() for each in _IDLE)
