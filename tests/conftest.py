"""The marks, the order, the options and the fixtures of all tests."""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings
from trio._core import _run as trio_run
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from quorate.cli.node.local_cluster import LocalCluster

# Spark's Java lives for seconds here, of which it takes a third to compile what it runs again, better.
# One that compiles once keeps a fifth of the usual place for code. A pipeline fills it, and then it fails.
for _java in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ.setdefault(_java, "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC")

# The clock judges no example: this machine may be busy.
settings.register_profile("few", max_examples=20, deadline=None)
settings.register_profile("many", max_examples=100, deadline=None)
settings.load_profile("few")

REAL_TIME = tuple(
    f"tests/{place}"
    for place in (
        "benchmarks/",
        "broker/controller/test_quorum_log.py",
        "broker/server/",
        "certs/test_joining.py",
        "cli/",
        "clients/",
        "docs/",
        "doors/",
        "examples/",
        "history/test_cluster.py",
        "history/test_imports.py",
        "log/test_gaps.py",
        "metrics/",
        "packaging/",
        "pipelines/",
        "raft/test_disk_stalls.py",
        "raft/test_embedding.py",
        "raft/test_hostile.py",
        "raft/test_quorum.py",
        "raft/test_snapshot_disk.py",
        "runtime/",
        "spark_source/",
        "system/",
        "testing/",
    )
)
"""The places of tests that start processes or listen at ports of this machine, and go by its clock."""

LONG = tuple(
    f"tests/{name}.py"
    for name in (
        "broker/controller/test_reassignments",
        "broker/replication/test_cleaning",
        "broker/replication/test_dead_brokers",
        "broker/replication/test_directory_moves",
        "broker/replication/test_many_followed",
        "broker/replication/test_moves",
        "broker/replication/test_offline_replicas",
        "broker/replication/test_random_damage",
        "broker/replication/test_random_schedules",
        "broker/replication/test_refetch",
        "broker/replication/test_scrub",
        "broker/test_failure_reports",
        "broker/test_health",
        "broker/wire/test_codecs",
        "broker/wire/test_guard",
        "broker/wire/test_server",
        "broker/wire/test_sliced_decoding",
        "broker/wire/test_sliced_encoding",
        "explorer/test_explorer",
        "explorer/test_isr_explorer",
        "log/test_compaction_crashes",
        "log/test_indexes_from_the_future",
        "log/test_log_model",
        "log/test_snapshot_crashes",
        "raft/test_crowds",
        "raft/test_quorum_failures",
        "raft/test_restoring",
        "raft/test_server",
        "raft/test_snapshot_crashes",
        "raft/test_snapshot_fetching",
        "raft/test_voters",
        "raft/test_wellformed_lies",
        "simulation/test_bit_rot",
        "simulation/test_broker_lost_disks",
        "simulation/test_broker_scenarios",
        "simulation/test_broker_seeds",
        "simulation/test_broker_transactions",
        "simulation/test_broker_voters",
        "simulation/test_closest_replica",
        "simulation/test_compacted_mix",
        "simulation/test_connections",
        "simulation/test_core_seeds",
        "simulation/test_crash_at_every_await",
        "simulation/test_dead_brokers",
        "simulation/test_duplicate_replicas",
        "simulation/test_explorer_symmetry",
        "simulation/test_operator_seeds",
        "simulation/test_paused_leader",
        "simulation/test_planted_broker_faults",
        "simulation/test_planted_faults",
        "simulation/test_planted_long_steps",
        "simulation/test_quorum_faults",
        "simulation/test_quorum_scenarios",
        "simulation/test_quorum_seeds",
        "simulation/test_session_seeds",
        "simulation/test_settled_cluster",
        "simulation/test_shrinking",
        "simulation/test_simulated_cluster",
        "test_architecture",
        "test_error_code",
    )
)
"""Tests that run whole clusters in virtual time, crash a node at every operation, explore, or decode
thousands of damaged messages."""

MARKED = {"real_time": REAL_TIME, "long": LONG}
"""The places whose tests have a marker."""

TOGETHER = ("tests/docs/test_blocks.py", "tests/spark_source/")
"""Places whose tests share a cluster or a Spark session, which is slow to start."""

APART = ("tests/docs/test_stories.py", "tests/testing/test_plugin.py")
"""Files whose tests share nothing, so that each may have another worker."""

LONGEST = tuple(
    f"tests/{place}"
    for place in (
        "docs/test_topics_in_spark.py",
        "pipelines/",
        "docs/test_blocks.py",
        "docs/test_stories.py",
        "benchmarks/",
        "broker/replication/test_offline_replicas.py",
        "cli/test_health_without_alarm.py",
        "simulation/test_session_seeds.py",
        "packaging/test_plain_checkout.py",
        "system/test_nemesis.py",
        "testing/test_plugin.py",
        "metrics/test_prometheus.py",
        "simulation/test_broker_lost_disks.py",
        "simulation/test_planted_broker_faults.py",
        "clients/test_kafka_tools.py",
        "spark_source/",
    )
)
"""Places of few tests that take long, which begin first. Otherwise one worker is left with them at the end:
xdist begins with the files of many tests."""

TURNS = (
    (
        "tests/pipelines/test_kills.py::test_kills_leave_no_trace_on_one_machine",
        "tests/benchmarks/test_spark_suite.py",
    ),
    ("tests/pipelines/test_kills.py::test_kills_leave_no_trace_on_a_standalone_cluster",),
    (
        "tests/pipelines/test_kills.py::test_kills_leave_no_trace_through_spark_connect",
        "tests/spark_source/test_live_stream.py",
    ),
    ("tests/pipelines/test_clusters.py::test_a_standalone_cluster",),
    ("tests/pipelines/test_clusters.py",),
    ("tests/pipelines/test_scripted_incident.py::test_a_pipeline_that_was_killed",),
    ("tests/pipelines/test_scripted_incident.py",),
    ("tests/pipelines/test_outage_stream.py",),
    ("tests/pipelines/test_pipeline_run.py",),
    ("tests/docs/test_topics_in_spark.py",),
    ("tests/docs/test_stories.py::test_a_page_does_what_it_says[pipelines.md]",),
    ("tests/docs/test_stories.py::test_a_page_does_what_it_says[table-formats.md]",),
    ("tests/docs/test_stories.py::test_a_page_does_what_it_says[tutorial-what-happened.md]",),
    ("tests/cli/test_demo.py",),
    tuple(
        f"tests/docs/test_blocks.py::test_python_blocks_that_are_whole_programs_run[docs/{page}.md:"
        for page in ("how-to/follow-outages", "how-to/pipelines", "how-to/spark", "tutorial-what-happened")
    ),
)
"""The tests that start Spark again and again, in parts of some five minutes. CI runs one part each time."""

PARTS = 12
"""All other slow tests, file by file, are in so many parts, of which CI runs one each time."""


class WaitingBesideComputing(LoadScopeScheduling):
    """Every other worker takes tests that mostly wait for the real clock, and the others tests that compute,
    so that no processor idles; first the longest. A worker that finds none of its kind takes the other."""

    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith(APART):
            return nodeid
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid.rpartition("::")[0])

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = self.nodes.index(node) % 2 == 0
        # A worker's next tests are its own already: behind a long one are few.
        ahead = (
            test for unit in self.assigned_work.get(node, {}).values() for test in unit if not unit[test]
        )
        waits_long = any(test.startswith(LONGEST) for test in ahead)

        def rank(scope: str) -> tuple[int, bool, bool]:
            longest = scope.startswith(LONGEST)
            if waits_long:
                return len(self.workqueue[scope]), longest, scope.startswith(REAL_TIME) != waits
            return 0, scope.startswith(REAL_TIME) != waits, not longest

        self.workqueue.move_to_end(min(self.workqueue, key=rank), last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> WaitingBesideComputing:
    return WaitingBesideComputing(config, log)


def share_the_reading(config: pytest.Config) -> None:
    """Let each worker begin to collect at another file: it finds compiled what the others have read by then.
    Of a fresh checkout each would otherwise compile everything, at the same time as the others. Files that
    `-m` leaves out for their place are not read at all."""
    if config.args != config.getini("testpaths"):
        return
    left_out = tuple(
        place
        for marker, places in MARKED.items()
        if f"not {marker}" in config.getoption("markexpr").split(" and ")
        for place in places
    )
    files = sorted(
        str(file)
        for place in config.args
        for file in (config.rootpath / place).rglob("test_*.py")
        if not file.relative_to(config.rootpath).as_posix().startswith(left_out)
    )
    worker = config.workerinput  # type: ignore[attr-defined]
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args[:] = files[first:] + files[:first]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by where they are, so that `make quick` and `make test` can leave them out. With `--turn`,
    leave out those of other turns."""
    if hasattr(config, "workerinput"):
        # xdist asks for the same order of all workers.
        items.sort(key=lambda item: item.path)
    for item in items:
        for marker, places in MARKED.items():
            if item.nodeid.startswith(places):
                item.add_marker(marker)
        if item.path.stem.endswith("gaps") or is_a_further_case(item):
            item.add_marker(pytest.mark.slow)
    turn = config.getoption("turn")
    if turn is not None:
        mine = {item for item in items if takes_its_turn(item, turn)}
        config.hook.pytest_deselected(items=[item for item in items if item not in mine])
        items[:] = [item for item in items if item in mine]


def takes_its_turn(item: pytest.Item, turn: int) -> bool:
    """True for all that is not slow, and for the slow tests of this turn."""
    if item.get_closest_marker("slow") is None:
        return True
    for at, part in enumerate(TURNS):
        if item.nodeid.startswith(part):
            return at == turn % len(TURNS)
    return crc32(item.nodeid.partition("::")[0].encode()) % PARTS == turn % PARTS


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Set aside what lives as long as the process, the modules and the tests themselves: a test that collects
    garbage would look at all of it, in up to half a second. None of it is garbage while it is made."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def is_a_further_case(item: pytest.Item) -> bool:
    """True for all seeds of a test but the first, which `make test` runs. Of costly tests and of whole
    simulated clusters it runs the first case, whatever the parameters are."""
    callspec = getattr(item, "callspec", None)
    if callspec is None:
        return False
    simulated = item.nodeid.startswith("tests/simulation/") and item.nodeid.startswith(LONG)
    if simulated or item.get_closest_marker("costly") is not None:
        return any(callspec.indices.values())
    names = ("seed", "part") if item.nodeid.startswith(LONG) else ("seed",)
    return any(callspec.indices.get(each, 0) > 0 for each in names)


class SkippedTests:
    """Writes the ids of skipped tests as pytest takes them: `pytest @FILE` runs them."""

    def __init__(self, file: Path) -> None:
        self._file = file
        file.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped:
            with self._file.open("a") as file:
                file.write(f"{report.nodeid}\n")


def pytest_configure(config: pytest.Config) -> None:
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell starts its background jobs so, and whatever they start.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if hasattr(config, "workerinput"):
        share_the_reading(config)
        return
    file = config.getoption("skipped_to")
    if file is not None:
        config.pluginmanager.register(SkippedTests(file))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Let the seed that pytest-randomly prints draw the order of tasks: `--randomly-seed` replays it."""
    trio_run._r.seed(f"{item.config.getoption('randomly_seed')} {item.nodeid}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rounds", type=int, default=10, help="rounds of kill -9 in tests/system/test_kill.py")
    parser.addoption(
        "--kills", type=int, default=3, help="kill -9 in each test of tests/pipelines/test_kills.py"
    )
    parser.addoption(
        "--turn",
        type=int,
        metavar="N",
        help="of the slow tests, only those of the Nth turn, modulo the number of turns",
    )
    parser.addoption(
        "--skipped-to", type=Path, metavar="FILE", help="write the ids of skipped tests, a line each"
    )


@pytest.fixture(scope="session")
def need() -> Callable[[str], str]:
    """Path of a program that a test drives; skips with how to get it. CI installs all of them."""

    def find(program: str, package: str | None = None) -> str:
        path = shutil.which(program)
        if path is None:
            pytest.skip(f"{program} is not installed (Debian: apt-get install {package or program})")
        return path

    return find


@pytest.fixture
def make_cluster(tmp_path: Path) -> Iterator[Callable[..., LocalCluster]]:
    """Starts clusters of real processes; leaves none behind."""
    clusters: list[LocalCluster] = []

    def make(nodes: int = 3, **overrides: str) -> LocalCluster:
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        cluster = LocalCluster.plan(
            tmp_path / f"cluster-{len(clusters)}", nodes=nodes, client_port=0, overrides=settings
        )
        clusters.append(cluster)
        cluster.prepare()
        cluster.start()
        cluster.wait_ready()
        return cluster

    yield make
    for cluster in clusters:
        cluster.kill_all()
