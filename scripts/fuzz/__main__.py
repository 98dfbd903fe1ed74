"""Mutated frames against the controller listener of real nodes: none may be stopped by what is malformed.
Then mutated logins against a listener for clients (`logins`), and mutated TLS (`tls_records`).

    python scripts/fuzz --frames 1000000 --seed 7

Nodes run under virtual time in this process, in one life after another: a quorum is started, all that its
nodes say is recorded, and then fuzzing peers send what became of it. A share goes to a node on a real socket.

Checked: malformed frames only ever close their connection; a request of such a peer fails with nothing but an
error of the quorum; memory is bounded; afterwards the quorum leads and commits. What is well-formed and a
lie (the listener is trusted, until there is authentication) may stop a node by an InvariantError, which says
what was claimed; such ends are counted, and any other is a failure.

Every fifth quorum hears valid frames only, of who is no node (`wellformed`): it must lead and commit after
each connection, and no end of a node is known and excused there.
"""

import argparse
import random
import resource
import sys
import time
from collections import Counter
from pathlib import Path

import trio
import trio.lowlevel
import trio.testing
from cluster import CLUSTER_ID, PORT, Cluster
from fuzzing_peer import Errors, FuzzingPeer
from logins import LoginFuzz
from mutations import Mutator
from sockets import fuzz_real_node
from tls_records import TlsFuzz
from wellformed import Liar

from quorate.invariant import InvariantError
from quorate.raft.quorum import Quorum
from quorate.simulation.world.trace import taking_logs
from quorate.types import NodeId

LIFE_FRAMES = 4000
REAL_SHARE = 50
"""One frame in this many is sent over a socket."""
SHAPES = (
    # voters, of which run, voters in the log
    (1, 1, False),
    (3, 3, False),
    (3, 3, True),
    (3, 1, False),
)
GROWTH_MIB = 200.0
"""The limit of growth at the peak, above the need of the first lives of each shape."""
KNOWN_LIES = ("two leaders in one epoch",)
"""Lies after which a node stops: a voter's name under a claim that no honest voter makes."""
HIGHEST_EPOCH = 2**31 - 1
PATIENCE_SECONDS = 300
WELL_FORMED_LIVES = 5
"""One quorum in this many hears valid frames only."""
COMMIT_SECONDS = 10
"""The time within which such a quorum commits, after any frames."""


class Fuzz:
    def __init__(self, seed: int, frames: int) -> None:
        self._seed = seed
        self._frames = frames
        self.errors = Errors()
        self.sent: Counter[str] = Counter()
        self.kinds: dict[int, None] = {}
        self.closed = 0
        self.answered = 0
        self.lies: Counter[str] = Counter()
        self.epochs_used_up = 0
        self.lives = 0
        self.problems: list[str] = []
        self.examples: dict[str, bytes] = {}

    def run(self) -> None:
        began = time.monotonic()
        left = self._frames - self._frames // REAL_SHARE
        peak_at_first = 0.0
        while left > 0 and not self.problems:
            before = self.sent.total()
            count = min(left, LIFE_FRAMES)
            trio.run(self._live, count, clock=trio.testing.MockClock(autojump_threshold=0))
            left -= self.sent.total() - before
            self.lives += 1
            if self.lives == 2 * len(SHAPES):
                peak_at_first = peak_mib()
            if sys.stderr.isatty():
                print(f"\r{self.sent.total()} frames", end="", file=sys.stderr)
        grown = peak_mib() - peak_at_first if peak_at_first else 0.0
        if grown > GROWTH_MIB:
            self.problems.append(f"memory grew by {grown:.0f} MiB")
        seconds = time.monotonic() - began
        count = self.sent.total()
        print(f"{count} frames in {seconds:.1f} s, {count / seconds:.0f}/s, against {self.lives} quorums")
        print("kinds recorded: " + ", ".join(map(str, sorted(self.kinds))))
        print("mutations: " + ", ".join(f"{count} {name}" for name, count in sorted(self.sent.items())))
        print(f"connections closed on them: {self.closed}; bytes answered: {self.answered}")
        print(f"peak memory {peak_mib():.0f} MiB, {grown:.1f} MiB above that of the first lives")
        print(f"nodes stopped by well-formed lies: {self.lies.total()}")
        for lie, times in sorted(self.lies.items()):
            print(f"  {times} {lie}")
        if self.epochs_used_up:
            print(f"quorums whose epochs a lie used up: {self.epochs_used_up}")

    async def _live(self, frames: int) -> None:
        is_well_formed = self.lives % WELL_FORMED_LIVES == WELL_FORMED_LIVES - 1
        voters, running, dynamic = SHAPES[self.lives % len(SHAPES)]
        draw = random.Random(f"{self._seed}/{self.lives}")
        async with trio.open_nursery() as nursery:
            cluster = Cluster(f"{self._seed}/{self.lives}", voters, dynamic=dynamic, nursery=nursery)
            await cluster.start()
            await cluster.say_everything()
            for node in range(running + 1, voters + 1):
                cluster.end(node)
            mutator = Mutator(draw, list(cluster.recorder.frames))
            self.kinds.update(dict.fromkeys(mutator.kinds))
            while frames > 0 and cluster.quorums and not self.problems:
                node = draw.choice(sorted(cluster.quorums))
                source = liar_of(cluster, node, random.Random(draw.random())) if is_well_formed else mutator
                frames -= await self._connection(cluster, node, source, min(frames, 100))
                if is_well_formed:
                    await self._check_well_formed(cluster, expect_leader=running > voters // 2)
                else:
                    self._judge(cluster)
            await trio.sleep(5)
            self._judge(cluster)
            if not cluster.failures:
                await self._check(cluster, expect_leader=running > voters // 2)
            nursery.cancel_scope.cancel()
        self.problems += self.errors.taken()

    async def _check_well_formed(self, cluster: Cluster, *, expect_leader: bool) -> None:
        for node, failure in sorted(cluster.failures.items()):
            self.problems.append(f"node {node} stopped: {failure.__cause__!r} after {self._last[-5:]}")
        if self.problems or not expect_leader:
            return
        with trio.move_on_after(COMMIT_SECONDS):
            await (await cluster.leader()).append([b"goes on"])
            return
        states = [(each.node_id, each.role, each.epoch, each.voters.ids) for each in cluster.quorums.values()]
        self.problems.append(f"nothing committed for {COMMIT_SECONDS} s after {self._last[-5:]}: {states}")

    async def _connection(self, cluster: Cluster, node: int, mutator: Mutator | Liar, frames: int) -> int:
        peer = FuzzingPeer(mutator, frames)
        server = cluster.quorums[node]._node.server
        with trio.move_on_after(PATIENCE_SECONDS) as patience:
            try:
                await server._serve_connection(peer)
            except Exception as error:
                # It would have stopped the node.
                self.problems.append(f"{first_of(error)!r} came out of the server after {peer.sent[-1:]}")
        if patience.cancelled_caught and node in cluster.quorums:
            self.problems.append(f"node {node} neither took nor refused {peer.sent[-1:]} (seed {self._seed})")
        self.sent.update(name for name, _ in peer.sent)
        self.closed += peer.closed_early
        self.answered += peer.answered
        owed = [connection.outbox for connection in server._connections._owed.values()]
        for name, owners in (("answers", owed), ("flushes", list(server._dirty))):
            kept = sum(outbox.closed for outbox in owners)
            if kept:
                self.problems.append(f"{kept} {name} are kept for connections that are gone")
        self._last = peer.sent
        return len(peer.sent) or 1

    def _judge(self, cluster: Cluster) -> None:
        for node, failure in sorted(cluster.failures.items()):
            cause = failure.__cause__ or failure
            if isinstance(cause, InvariantError) and str(cause).startswith(KNOWN_LIES):
                what = str(cause).partition("(")[0].strip()
                self.lies[what] += 1
                self.examples.setdefault(what, repr((str(cause), self._last[-1:])).encode())
            else:
                self.problems.append(f"node {node} stopped: {cause!r} after {self._last[-1:]}")
        if cluster.failures:
            for quorum in list(cluster.quorums.values()):
                cluster.end(quorum.node_id)
            cluster.quorums.clear()

    async def _check(self, cluster: Cluster, *, expect_leader: bool) -> None:
        """Check that the quorum leads and commits, unless lies used up the epochs or took the voters away."""
        quorums = list(cluster.quorums.values())
        if any(quorum.epoch >= HIGHEST_EPOCH - 10 for quorum in quorums):
            self.epochs_used_up += 1
            return
        if not expect_leader:
            return
        with trio.move_on_after(PATIENCE_SECONDS):
            leader: Quorum[int] = await cluster.leader()
            await leader.append([b"still works"])
            return
        self._judge(cluster)
        if cluster.failures:
            return
        states = [(quorum.node_id, quorum.role, quorum.epoch, quorum.leader) for quorum in quorums]
        self.problems.append(f"no leader {PATIENCE_SECONDS} s after the last frame: {states}")


def liar_of(cluster: Cluster, node: int, draw: random.Random) -> Liar:
    """Return a liar that knows all that a peer can ask for."""
    quorums = list(cluster.quorums.values())
    return Liar(
        draw,
        cluster_id=CLUSTER_ID,
        node=NodeId(node),
        voters=cluster.voters.voters,
        epoch=lambda: max(quorum.epoch for quorum in quorums),
        end_offset=lambda: max(quorum.log.end_offset for quorum in quorums),
        port=PORT,
    )


def first_of(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument(
        "--logins",
        type=int,
        help="frames of strangers at the listener for clients (default: a third as many)",
    )
    parser.add_argument("--tls", type=int, help="strangers with other TLS (default: a 200th as many)")
    parser.add_argument("--seed", type=int, help="what decides all (default: drawn)")
    parser.add_argument("--examples", type=Path, help="write one frame per kind of lie to this file")
    options = parser.parse_args()
    seed = random.SystemRandom().randrange(2**32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)
    fuzz = Fuzz(seed, options.frames)
    with taking_logs(fuzz.errors):
        fuzz.run()
        if not fuzz.problems:
            fuzz.problems += fuzz_real_node(seed, max(200, options.frames // REAL_SHARE), CLUSTER_ID)
        if not fuzz.problems:
            logins = LoginFuzz(seed, options.frames // 3 if options.logins is None else options.logins)
            logins.run()
            fuzz.problems += logins.problems + fuzz.errors.taken()
        if not fuzz.problems:
            tls = TlsFuzz(seed, options.frames // 200 if options.tls is None else options.tls)
            tls.run()
            fuzz.problems += tls.problems + fuzz.errors.taken()
    if options.examples is not None:
        options.examples.write_bytes(b"\n".join(fuzz.examples.values()))
    for problem in fuzz.problems:
        print(f"WRONG: {problem}")
    print("all was well" if not fuzz.problems else f"{len(fuzz.problems)} problems")
    return 1 if fuzz.problems else 0


if __name__ == "__main__":
    sys.exit(main())
