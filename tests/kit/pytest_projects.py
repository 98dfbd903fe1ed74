"""Projects of users that test with clusters, and what their test runs leave behind."""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.kit.waiting import wait_until

SECONDS = 300.0
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "test-with-a-cluster.md"
SLEEPS = """
import os
import time

def test_sleeps(kafka_cluster):
    cluster = kafka_cluster(2)
    cluster.pause(2)
    os.mkdir("sleeps")
    time.sleep(600)
"""


def blocks_of_the_page() -> dict[str, str]:
    """The Python files of the how-to by their names, which their first lines say."""
    found = re.findall(r"```python\n# (test_\w+\.py)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return dict(found)


@dataclass(frozen=True, slots=True)
class PytestProject:
    """A folder with tests. Their clusters are in it too."""

    folder: Path
    python: str | Path = sys.executable
    """The interpreter that has quorate and pytest."""

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)

    @property
    def _environment(self) -> dict[str, str]:
        """That of a user: the options of this test run are not the project's."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        return ours | {"TMPDIR": str(self.folder)}

    def _command(self, *arguments: str) -> list[str]:
        self.write("pytest.ini", "[pytest]\n")
        return [str(self.python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the tests to their end."""
        return subprocess.run(
            self._command(*arguments),
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def start_and_sleep(self) -> subprocess.Popen[bytes]:
        """Start a test run that has a cluster of two, and sleeps."""
        self.write("test_sleeps.py", SLEEPS)
        output = self.folder / "output"
        with output.open("w") as file:
            run = subprocess.Popen(
                self._command(), cwd=self.folder, env=self._environment, stdout=file, stderr=file
            )
        asleep = self.folder / "sleeps"
        try:
            wait_until(lambda: asleep.exists() or run.poll() is not None, "the test sleeps", seconds=SECONDS)
            assert asleep.exists(), output.read_text()
        except BaseException:
            run.kill()
            run.wait()
            raise
        return run

    def folders(self) -> list[str]:
        """The names of the clusters' folders."""
        return sorted(path.name for path in self.folder.glob("quorate-test-*"))

    def processes(self) -> dict[int, str]:
        """The command lines of the processes of test runs, their clusters included, by their ids."""
        mark = f"TMPDIR={self.folder}".encode()
        found: dict[int, str] = {}
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found[int(process.name)] = line.strip()
            except OSError:
                continue  # it has ended, or is another user's
        return found

    def wait_nothing_left(self) -> None:
        """Return when no process and no folder of a cluster is left."""
        wait_until(lambda: not self.processes(), lambda: f"these processes end: {self.processes()}")
        wait_until(lambda: not self.folders(), lambda: f"these folders are removed: {self.folders()}")
