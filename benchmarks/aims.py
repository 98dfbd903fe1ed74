"""What is aimed at: one table for every suite and page."""

from dataclasses import dataclass, replace

from report import Measure


@dataclass(frozen=True, slots=True, kw_only=True)
class Aim:
    rows: tuple[str, ...]
    """The measure's names in the suites that have it."""
    most: float | None = None
    least: float | None = None
    of_etcd: bool = True
    """The bound is on quorate's figure over etcd's, or else on quorate's own."""

    def text(self, unit: str) -> str:
        if self.least is not None:
            return f"at least {self.least:g} x etcd"
        return f"at most {self.most:g} of etcd" if self.of_etcd else f"at most {self.most:g} {unit}"

    def met(self, measure: Measure) -> bool | None:
        """None where there is nothing to compare with."""
        value = measure.ratio if self.of_etcd else measure.values.get("quorate")
        if value is None:
            return None
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)


AIMS = (
    Aim(rows=("commit latency, 1 in flight, p50", "1 in flight, 100 B, p50"), most=0.7),
    Aim(rows=("commits, 256 in flight", "commits, 256 in flight, 100 B"), least=10),
    Aim(
        rows=("CPU per commit, three nodes, 256 in flight", "CPU per commit, all nodes, 256 in flight"),
        most=40,
        of_etcd=False,
    ),
    Aim(rows=("start to first commit, three nodes", "start to first commit"), most=2, of_etcd=False),
    Aim(
        rows=("kill -9 the leader to next commit, p50", "kill -9 the leader to next commit"),
        most=0.6,
        of_etcd=False,
    ),
    Aim(rows=("resident memory of an idle node",), most=100, of_etcd=False),
    Aim(rows=("2,000,000 partitions: resident memory of a process with the image",), most=300, of_etcd=False),
    Aim(rows=("2,000,000 partitions: replay of the log",), most=15, of_etcd=False),
    Aim(
        rows=("2,000,000 partitions: kill -9 of the active controller to the next answer",),
        most=1,
        of_etcd=False,
    ),
    Aim(
        rows=tuple(
            f"a decision that the connection remembers, {each} ACLs" for each in ("0", "100", "10,000")
        ),
        most=0.3,
        of_etcd=False,
    ),
)


def judged(measure: Measure) -> Measure:
    """`measure` beside what is aimed at, if anything is."""
    for aim in AIMS:
        if measure.name in aim.rows:
            return replace(measure, aim=aim.text(measure.unit), met=aim.met(measure))
    return measure
