"""How a command of Kafka's is run and judged."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rows import Result, Row
from stage import Stage
from tool_host import Done, ToolHost

MAINS = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "kafka-cluster": "org.apache.kafka.tools.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-share-consumer": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-metadata-shell": "org.apache.kafka.shell.MetadataShell",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "org.apache.kafka.tools.ReplicaVerificationTool",
    "kafka-share-groups": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-storage": "kafka.tools.StorageTool",
    "kafka-streams-application-reset": "org.apache.kafka.tools.StreamsResetter",
    "kafka-streams-groups": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "kafka-verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
GROUP = "command line"
SERVER_FIRST = {"kafka-metadata-quorum", "kafka-features", "kafka-transactions"}
"""Tools that take the cluster's addresses before the name of their command."""
HOPELESS = re.compile("UnsupportedVersionException|does not support|is not supported by the cluster")
"""The output of failures that no time mends."""
SOON_SECONDS = 10.0


@dataclass(slots=True)
class Tools:
    """Runs commands and keeps their rows."""

    host: ToolHost
    stage: Stage
    rows: list[Row] = field(default_factory=list)
    area: str = ""

    def run(
        self,
        call: str,
        *arguments: str,
        shows: Mapping[str, str],
        code: int = 0,
        stdin: str = "",
        seconds: float = 60.0,
        server: str | None = "--bootstrap-server",
        then: Callable[[str], None] | None = None,
        soon: bool = False,
        endless: bool = False,
    ) -> Done:
        """Run the tool that `call` begins with, and judge by exit code and content.

        `shows`: what is checked, and the pattern that shows it in the output. A pattern that begins with `!`
        must not be there. `server`: the option for the cluster's addresses; None: `arguments` have them.
        `then`: gets the output, and raises AssertionError while the cluster is not as it says. `soon`: what
        is shown may take a while to come true, so the tool, which changes nothing, runs again until it has.
        `endless`: the tool runs until it is stopped, after `seconds`.
        """
        deadline = time.monotonic() + SOON_SECONDS
        while True:
            done = self._tool(call, arguments, stdin=stdin, seconds=seconds, server=server, endless=endless)
            missing = [what for what, pattern in shows.items() if not _shown(pattern, done.output)]
            hopeless = time.monotonic() > deadline or HOPELESS.search(done.output)
            if not (missing and soon) or hopeless:
                break
        detail = ""
        if done.code is None and not endless:
            detail = f"does not end: {_tail(done.output)}"
        elif done.code != code and not endless:
            detail = f"exit code {done.code}: {_tail(done.output)}"
        elif missing:
            detail = f"{', '.join(missing)}: {_tail(done.output)}"
        elif then is not None:
            detail = _soon(then, done.output)
        result = Result.FAIL if detail else Result.PASS
        self._keep(call, ", ".join(shows), result, detail, done.ms)
        return done

    def refused(
        self,
        call: str,
        *arguments: str,
        reason: str,
        says: str,
        stdin: str = "",
        seconds: float = 60.0,
        server: str | None = "--bootstrap-server",
        endless: bool = False,
    ) -> None:
        """Run a tool for a request that is not served. It has to end, unless it is `endless`, and print the
        pattern `says`."""
        done = self._tool(call, arguments, stdin=stdin, seconds=seconds, server=server)
        if done.code is None and not endless:
            self._keep(call, reason, Result.FAIL, f"does not end: {_tail(done.output)}", done.ms)
        elif not _shown(says, done.output):
            self._keep(call, reason, Result.FAIL, f"exit code {done.code}: {_tail(done.output)}", done.ms)
        else:
            self._keep(call, reason, Result.NOT_SERVED, _tail(done.output), done.ms)

    def look(self, call: str, files: Sequence[Path], pattern: str) -> None:
        """Read files that none of Kafka's tools reads."""
        wrong = [str(file) for file in files if not _shown(pattern, file.read_text())]
        detail = "there is none" if not files else f"another form: {wrong}" if wrong else ""
        self._keep(call, "Kafka's form", Result.FAIL if detail else Result.PASS, detail, 0)

    def _tool(
        self,
        call: str,
        arguments: tuple[str, ...],
        *,
        stdin: str,
        seconds: float,
        server: str | None,
        endless: bool = False,
    ) -> Done:
        tool = call.split()[0].rstrip(",")
        controllers = server == "--bootstrap-controller"
        addresses = self.stage.controllers if controllers else self.stage.bootstrap
        where = [] if server is None else [server, addresses]
        given = [*where, *arguments] if tool in SERVER_FIRST else [*arguments, *where]
        return self.host.tool(MAINS[tool], given, stdin=stdin, seconds=seconds, endless=endless)

    def _keep(self, call: str, checked: str, result: Result, detail: str, ms: int) -> None:
        row = Row(
            group=GROUP, area=self.area, call=call, checked=checked, result=result, detail=detail, ms=ms
        )
        self.rows.append(row)


def _soon(then: Callable[[str], None], output: str) -> str:
    """Return the problem that the cluster still has after a while. Brokers learn of a change one after the
    other."""
    deadline = time.monotonic() + SOON_SECONDS
    while True:
        try:
            then(output)
        except AssertionError as error:
            if time.monotonic() > deadline:
                return str(error) or "the cluster is not as the tool said"
            time.sleep(0.05)
        else:
            return ""


def _shown(pattern: str, output: str) -> bool:
    if pattern.startswith("!"):
        return re.search(pattern[1:], output, re.M) is None
    return re.search(pattern, output, re.M) is not None


def _tail(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip() and not line.startswith("\tat ")]
    return " / ".join(lines[-6:])[-600:]
