"""The published package, as its users install it."""

import re
import subprocess
import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

from tests.packaging.conftest import Install

ROOT = Path(__file__).parents[2]
EMBEDDED = """
import sys
import trio
from quorate.metrics import RaftMetrics
from quorate.raft import NodeId, Quorum, QuorumConfig, format_folder, parse_voters
from quorate.runtime.real import SyncStrategy, real_runtime
from prometheus_client import CollectorRegistry
import quorate, quorate.log, quorate.quorum_state, quorate.simulation

class Counter:
    total = 0
    def apply(self, batch):
        results = []
        for record in batch.records:
            self.total += int(record)
            results.append(self.total)
        return results
    def take_snapshot(self):
        return iter([str(self.total).encode()])
    def load_snapshot(self, snapshot):
        raise NotImplementedError

async def main(folder):
    runtime = real_runtime(sync=SyncStrategy.INLINE)
    await format_folder(runtime, folder, cluster_id="c", node_id=NodeId(1))
    config = QuorumConfig(
        node_id=NodeId(1), cluster_id="c", folder=folder, voters=parse_voters("1@127.0.0.1:0")
    )
    telemetry = RaftMetrics(CollectorRegistry(), monotonic=trio.current_time)
    async with Quorum.open(config, Counter(), runtime=runtime, telemetry=telemetry) as quorum:
        await quorum.wait_leader()
        print((await quorum.append([b"2", b"40"])).results)

trio.run(main, sys.argv[1])
print(quorate.__version__)
"""


def run(python: Path, *args: str, cwd: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([python, *args], cwd=cwd, capture_output=True, text=True, timeout=60)


@pytest.fixture(scope="module")
def python(install: Install) -> Path:
    return install()


@pytest.mark.slow
def test_an_embedded_quorum_runs_on_the_core_alone_and_prints_nothing_of_its_own(
    python: Path, tmp_path: Path, wheel: Path
) -> None:
    done = run(python, "-W", "error", "-c", EMBEDDED, str(tmp_path / "node"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (done.stdout.splitlines(), done.stderr) == (["(2, 42)", wheel.name.split("-")[1]], "")


@pytest.mark.slow
def test_a_simulated_quorum_runs_on_the_core_alone(python: Path, tmp_path: Path) -> None:
    program = """
import random
from quorate.simulation import QuorumRun, QuorumRunSettings
assert QuorumRun(1, QuorumRunSettings.draw(random.Random("quorum-settings/1"))).execute().committed
"""
    done = run(python, "-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "part", "module", "extra"),
    [
        ("import quorate.broker.server", "quorate.broker", "kio", "broker"),
        (
            "from quorate.spark_source import register",
            "quorate.spark_source.register",
            "pyspark",
            "spark",
        ),
    ],
)
def test_a_part_whose_extra_is_missing_says_what_to_install(
    python: Path, tmp_path: Path, program: str, part: str, module: str, extra: str
) -> None:
    done = run(python, "-c", program, cwd=tmp_path)
    assert done.stderr.splitlines()[-1] == (
        "quorate.runtime.extras.MissingExtraError: "
        f"{part} needs {module}, which is not installed: pip install 'quorate[{extra}]'"
    )


@pytest.mark.slow
def test_the_command_whose_extra_is_missing_ends_with_one_sentence(python: Path, tmp_path: Path) -> None:
    done = run(python, "-c", "from quorate.cli.entry import main; main()", cwd=tmp_path)
    assert done.returncode != 0
    told = "The quorate command needs typer, which is not installed: pip install 'quorate[cli]'\n"
    assert (done.stdout, done.stderr) == ("", told)


@pytest.mark.slow
def test_no_folder_on_the_path_joins_the_package(python: Path, tmp_path: Path) -> None:
    """A namespace package takes modules from every folder `quorate` on the path."""
    (tmp_path / "quorate" / "raft").mkdir(parents=True)
    (tmp_path / "quorate" / "raft" / "__init__.py").write_text("raise SystemExit('the wrong one')")
    done = run(python, "-c", "import quorate.raft; print(quorate.raft.__file__)", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert str(tmp_path) not in done.stdout


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as opened:
        (name,) = (name for name in opened.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(opened.read(name))


def test_the_wheel_names_the_console_script_its_pythons_and_where_the_project_is(
    wheel: Path, metadata: Message
) -> None:
    with zipfile.ZipFile(wheel) as opened:
        (entries,) = (name for name in opened.namelist() if name.endswith(".dist-info/entry_points.txt"))
        scripts = opened.read(entries).decode()
        top = {name.partition("/")[0] for name in opened.namelist() if ".dist-info" not in name}
    # Spark finds the source by the name of the second.
    assert top == {"quorate", "pyspark_quorate"}
    assert "quorate = quorate.cli.entry:main" in scripts
    assert {url.partition(",")[0] for url in metadata.get_all("Project-URL", [])} >= {"Homepage", "Changelog"}
    pythons = [each for each in metadata.get_all("Classifier", []) if "Python :: 3." in each]
    assert [each.rpartition(" ")[2] for each in pythons] == ["3.11", "3.12", "3.13", "3.14"]
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "all",
        "broker",
        "certs",
        "cli",
        "demo",
        "oauth",
        "spark",
    }


def links(text: str) -> list[str]:
    """The targets of links to files."""
    return [each for each in re.findall(r"\]\(([^)]+)\)", text) if not each.startswith("#")]


def test_links_of_the_readme_lead_to_the_repository_where_a_package_index_shows_it(metadata: Message) -> None:
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    in_repository = f"{urls['Homepage']}/blob/main/"
    shown = links(str(metadata.get_payload()))
    assert [target for target in shown if not target.startswith("https://")] == []
    ours = [target.removeprefix(in_repository) for target in shown if target.startswith(in_repository)]
    assert [path for path in ours if not (ROOT / path.partition("#")[0]).exists()] == []
    assert ours == [target for target in links((ROOT / "README.md").read_text()) if "://" not in target]
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_the_wheel_simulates_what_users_simulate(wheel: Path) -> None:
    """Brokers, cores alone and the explorers are for developers of quorate, in `tests/simulator`."""
    with zipfile.ZipFile(wheel) as opened:
        folders = {name.rpartition("/")[0] for name in opened.namelist()}
    simulation = "quorate/simulation"
    assert {each for each in folders if each.startswith(simulation)} == {
        simulation,
        *(
            f"{simulation}/{part}"
            for part in ("checkers", "faults", "histories", "quorum", "service", "world")
        ),
    }


def test_the_sdist_holds_what_the_wheel_is_built_from_and_no_tests(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert not [name for name in names if name.startswith(("tests", "benchmarks", "scripts"))]
    assert {
        "quorate/__init__.py",
        "quorate/raft/quorum.py",
        "CHANGELOG.md",
        "LICENSE",
        "README.md",
        "setup.py",
    } <= names


def test_wheel_and_sdist_hold_every_module_once(built: Path, wheel: Path, source: Path) -> None:
    """Not by the links at the top of the repository, too."""
    modules = sorted(
        str(path.relative_to(source))
        for package in ("quorate", "pyspark_quorate")
        for path in (source / package).rglob("*.py")
    )
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = sorted(name for name in opened.namelist() if name.endswith(".py"))
    assert in_wheel == modules
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as opened:
        files = [each.name.partition("/")[2] for each in opened.getmembers() if not each.isdir()]
    assert sorted(name for name in files if name.endswith(".py")) == [*modules, "setup.py"]
