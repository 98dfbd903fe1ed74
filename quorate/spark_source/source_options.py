"""The options of `format("quorate")`, named as those of Spark's Kafka source."""

import enum
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from quorate.history import METADATA_TOPIC
from quorate.runtime import Address
from quorate.spark_source.spark_errors import OptionError


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
    """One row per metadata record."""
    PARTITIONS = "partitions"
    """One row per change of a partition's leader, ISR or replicas."""
    TOPICS = "topics"
    """One row per topic created, configured or removed."""
    BROKERS = "brokers"
    """One row per change of a broker's registration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """Checked options."""

    path: str | None = None
    """A node's folder, or its `__cluster_metadata-0`."""
    bootstrap_servers: tuple[Address, ...] = ()
    view: ViewName = ViewName.RECORDS
    starting: Bound | None = None
    """None: earliest for a batch query, latest for a stream, as Spark's Kafka source."""
    starting_or_latest: bool = False
    """True: without a record at or after the starting timestamp, begin at the end instead of failing."""
    ending: Bound | None = None
    """Batch queries only. None: latest."""
    max_offsets_per_trigger: int | None = None
    """Streams only."""
    min_partitions: int | None = None
    fail_on_data_loss: bool = True
    include_control: bool = False
    """True: the records view has the records of Raft itself too (LeaderChange, KRaftVoters, ...)."""
    read_uncommitted: bool = False
    """True: read a folder beyond its persisted high watermark. Records there may still be truncated."""
    retries: int = 10
    """The number of further tries of all brokers before a read fails."""
    retry_interval_ms: int = 300
    request_timeout_ms: int = 5_000

    @property
    def client_options(self) -> Mapping[str, object]:
        """The options that only a live cluster uses, by name."""
        return {
            "fetchOffset.numRetries": self.retries,
            "fetchOffset.retryIntervalMs": self.retry_interval_ms,
            "kafka.request.timeout.ms": self.request_timeout_ms,
        }


KNOWN: Final = (
    "path",
    "bootstrapServers",
    "kafka.bootstrap.servers",
    "view",
    "startingOffsets",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "endingOffsets",
    "endingTimestamp",
    "maxOffsetsPerTrigger",
    "minPartitions",
    "failOnDataLoss",
    "includeControl",
    "readUncommitted",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "kafka.request.timeout.ms",
)
_BY_LOWER: Final = {name.lower(): name for name in KNOWN}


class _Given:
    """The options as given, by their proper names."""

    def __init__(self, raw: Mapping[str, str]) -> None:
        self._values: dict[str, str] = {}
        for name, value in raw.items():
            proper = _BY_LOWER.get(name.lower())
            if proper is None:
                raise OptionError(f"unknown option {name!r}; known are {', '.join(KNOWN)}")
            self._values[proper] = str(value).strip()

    def get(self, name: str) -> str | None:
        return self._values.get(name)

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
        value = self.get(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise OptionError(f"{name} is {value!r}; it must be true or false")
        return value.lower() == "true"

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
    given.exclusive("startingOffsets", "startingTimestamp")
    given.exclusive("endingOffsets", "endingTimestamp")
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
    retries = given.integer("fetchOffset.numRetries", low=0)
    interval = given.integer("fetchOffset.retryIntervalMs", low=0)
    request_timeout = given.integer("kafka.request.timeout.ms", low=1)
    return SourceOptions(
        path=None if path is None else path.removeprefix("file://").removeprefix("file:"),
        bootstrap_servers=servers,
        view=_view(given),
        starting=_bound(given, "starting"),
        starting_or_latest=_strategy(given),
        ending=_bound(given, "ending"),
        max_offsets_per_trigger=given.integer("maxOffsetsPerTrigger", low=1),
        min_partitions=given.integer("minPartitions", low=1),
        fail_on_data_loss=given.flag("failOnDataLoss", True),
        include_control=_include_control(given),
        read_uncommitted=given.flag("readUncommitted", False),
        retries=defaults.retries if retries is None else retries,
        retry_interval_ms=defaults.retry_interval_ms if interval is None else interval,
        request_timeout_ms=defaults.request_timeout_ms if request_timeout is None else request_timeout,
    )


def for_batch(options: SourceOptions) -> SourceOptions:
    """Raises `OptionError` for what only a stream has."""
    if options.max_offsets_per_trigger is not None:
        raise OptionError("maxOffsetsPerTrigger is for streams; bound a batch query with endingOffsets")
    if options.starting is Edge.LATEST:
        raise OptionError(
            "startingOffsets may not be latest in a batch query: there would be nothing to read"
        )
    return options


def for_stream(options: SourceOptions) -> SourceOptions:
    """Raises `OptionError` for what only a batch query has."""
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
        return ViewName.RECORDS
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
    if given.get("startingTimestamp") is None:
        raise OptionError(f"{name} needs startingTimestamp")
    if text.lower() not in ("error", "latest"):
        raise OptionError(f"{name} is {text!r}; it must be error or latest")
    return text.lower() == "latest"


def _bound(given: _Given, end: str) -> Bound | None:
    timestamp = given.integer(f"{end}Timestamp", low=0)
    if timestamp is not None:
        return AtTimestamp(timestamp)
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
    try:
        raw: object = json.loads(text)
    except ValueError:
        raise OptionError(problem) from None
    match raw:
        case {**topics} if list(topics) == [METADATA_TOPIC]:
            match topics[METADATA_TOPIC]:
                case {**partitions} if list(partitions) == ["0"]:
                    match partitions["0"]:
                        case -2:
                            return Edge.EARLIEST
                        case -1:
                            return Edge.LATEST
                        case int(offset) if offset >= 0 and not isinstance(offset, bool):
                            return AtOffset(offset)
    raise OptionError(problem)
