"""Real nodes under real faults: processes in network namespaces, and clients that check what they are told.

    python scripts/nemesis --seconds 180 --seed 7

Needs root, iproute2 and /dev/net/tun. Ends with 0 if all was well, with 77 if it can't run here.
"""

import json
import random
import sys
import time
from collections import Counter

import trio
from cluster import CLUSTER_ID, Cluster
from faults import Nemesis
from history import load, problems
from run import Run, end_of_run, parser_of

ROUND_SECONDS = 25.0
"""The time of the faults of a round. Then all is healed and has to work again."""
WORKING_WITHIN_SECONDS = 60.0
CLIENTS = tuple(f"client-{number}" for number in range(2))
WORKERS = 4


class QuorumRun(Run[Cluster]):
    def make_cluster(self, nursery: trio.Nursery) -> Cluster:
        return Cluster(self.folder, self.seed, self.options.nodes, nursery, self.say)

    async def carry_out(self, cluster: Cluster) -> None:
        for node in cluster.hosts:
            await cluster.start(node)
        started = await cluster.wait_working(within_seconds=WORKING_WITHIN_SECONDS)
        self.say(f"works {started:.2f} s after its start")
        nemesis = Nemesis(cluster, random.Random(self.seed))
        for number, name in enumerate(CLIENTS):
            await self._start_client(cluster, number, name)
        recoveries: list[float] = []
        until = time.monotonic() + self.options.seconds
        while (left := until - time.monotonic()) > 0 and not cluster.failures:
            await nemesis.run(seconds=min(ROUND_SECONDS, left))
            await cluster.heal()
            try:
                recoveries.append(await cluster.wait_working(within_seconds=WORKING_WITHIN_SECONDS))
            except TimeoutError as error:
                self.problems.append(str(error))
                break
            self.say(f"works {recoveries[-1]:.2f} s after all was healed")
        counts = await self._finish_clients()
        self.problems += cluster.failures
        print(f"seed {self.seed}, {self.options.nodes} nodes, {self.options.seconds:g} s of faults")
        print("calls: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
        print("faults: " + ", ".join(f"{count} {name}" for name, count in sorted(nemesis.done.items())))
        if recoveries:
            print(f"worked again after healing {len(recoveries)} times, within {max(recoveries):.2f} s")
        await self._check(cluster)
        self.find_bugs(cluster)

    async def _start_client(self, cluster: Cluster, number: int, name: str) -> None:
        arguments = {
            "name": f"c{number}-",
            "seed": f"{self.seed}/{number}",
            "cluster_id": CLUSTER_ID,
            "nodes": {node: (address.host, address.port) for node, address in cluster.addresses.items()},
            "workers": WORKERS,
            "started_at": time.monotonic(),
        }
        await self.start_client(name, "client.py", arguments)

    async def _finish_clients(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for name, client in self.clients.items():
            assert client.stdin is not None and client.stdout is not None
            await client.stdin.aclose()
            said = b""
            with trio.move_on_after(60):
                async for part in client.stdout:
                    said += part
                await client.wait()
            if client.returncode == 0:
                counts.update(json.loads(said.decode().splitlines()[-1]))
            else:
                self.problems.append(f"{name} ended with code {client.returncode}: {self.errors_of(name)}")
        return counts

    async def _check(self, cluster: Cluster) -> None:
        """Check that all nodes have one state, and that it explains what the clients were told."""
        ended_at = time.monotonic()
        dumps, statuses = {}, {}
        deadline = ended_at + WORKING_WITHIN_SECONDS
        while len(dumps) < len(cluster.hosts) and time.monotonic() < deadline:
            for node in cluster.hosts:
                if node not in dumps:
                    try:
                        dumps[node] = (await cluster.links.ask(node, {"dump": True}, seconds=30))["lists"]
                        statuses[node] = await cluster.links.ask(node, {"status": True})
                    except Exception as error:
                        self.say(f"node {node} gives no state: {error}")
                        await trio.sleep(0.2)
        if len(dumps) < len(cluster.hosts):
            self.problems.append("not every node gave its state at last")
        states = [json.dumps(dump, sort_keys=True) for dump in dumps.values()]
        if len(set(states)) > 1:
            self.problems.append(f"the nodes' states differ at last: {statuses}")
        calls = load(self.folder / f"{name}.jsonl" for name in CLIENTS)
        if dumps:
            lists = next(iter(dumps.values()))
            at_last = {key: tuple(values) for key, values in lists.items() if key != "working"}
            self.problems += problems(calls, at_last, ended_at=ended_at)
        try:
            await cluster.stop_wire()
        except (OSError, ValueError, trio.BrokenResourceError) as error:
            self.problems.append(f"the wire broke: {error}")
        print(f"stopped on a full disk, and came back: {cluster.ended_by_full_disk}")
        epoch = max((str(status["epoch"]) for status in statuses.values()), default="unknown")
        loads = sum(
            host.log_file.read_text(errors="replace").count("loaded a snapshot")
            for host in cluster.hosts.values()
        )
        print(f"epoch at last: {epoch}; snapshots installed from a leader: {loads}")
        print(f"packets: {cluster.wire_said}")
        print(f"checked: {len(calls)} calls by their lists")


def main() -> int:
    parser = parser_of(__doc__, seconds=180.0, help_of_seconds="of faults")
    parser.add_argument("--nodes", type=int, default=3, choices=range(3, 6), help="3 to 5 (default 3)")
    return end_of_run(QuorumRun, parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
