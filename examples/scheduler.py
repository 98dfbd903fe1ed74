"""A scheduler like Celery's beat: of three processes, the leader runs the jobs that are due.

python examples/scheduler.py 1 /tmp/jobs.db /tmp/s1    (and 2 /tmp/jobs.db /tmp/s2, and 3)

The jobs' database refuses a run that it has, by its number, and one of a deposed leader, by its epoch.
"""

import json
import logging
import sqlite3
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from three_nodes import configured

from quorate.blocking import Leading, Quorum
from quorate.raft import CommittedBatch, Epoch, NotLeaderError, OutcomeUnknownError

JOBS = {"mail": 0.2, "report": 0.5}  # seconds from one run to the next
RUN = "INSERT OR IGNORE INTO runs SELECT ?1, ?2, ?3 WHERE ?3 >= (SELECT coalesce(max(epoch), 0) FROM runs)"


@dataclass
class Schedule:
    done: dict[str, int] = field(default_factory=dict)  # the last run of each job, counted from 1970

    def apply(self, batch: CommittedBatch) -> list[None]:
        self.done.update(json.loads(record) for record in batch.records)
        return [None] * len(batch.records)


def opened(file: str) -> sqlite3.Connection:
    database = sqlite3.connect(file, timeout=30, isolation_level=None)
    database.execute("CREATE TABLE IF NOT EXISTS runs (job, number, epoch, PRIMARY KEY (job, number))")
    return database


def run(database: sqlite3.Connection, job: str, number: int, epoch: Epoch) -> None:
    database.execute(RUN, (job, number, epoch))


def lead(quorum: Quorum[None], schedule: Schedule, database: sqlite3.Connection, leading: Leading) -> None:
    while not leading.lost.wait(0.02):
        for job, seconds in JOBS.items():
            due = int(time.time() / seconds)
            for number in range(schedule.done.get(job, due - 1) + 1, due + 1):
                run(database, job, number, leading.epoch)
                quorum.append_nowait([json.dumps([job, number]).encode()], epoch=leading.epoch).wait()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    node, file, *rest = sys.argv[1:]
    with Quorum.open(configured(node, *rest), schedule := Schedule()) as quorum:
        while True:
            with quorum.while_leading() as leading, suppress(NotLeaderError, OutcomeUnknownError):
                lead(quorum, schedule, opened(file), leading)
