"""The JSON that the page gets: worlds, stories and rules."""

from quorate.play.play_node import Packet, PlayNode, PlayRecord, describe
from quorate.play.played import Played
from quorate.play.script import Line, Say, Script
from quorate.play.start import start_to_json
from quorate.play.steps import Deliver, Drop, Fire, Json, Step, step_to_json
from quorate.play.world import Happening, World
from quorate.play.wrong_rules import WRONG_RULES, WrongRule
from quorate.raft.core import Request


def view_of(played: Played, position: int) -> dict[str, Json]:
    """Return the world after so many steps, what led there, and what may be done."""
    world = played.at(position)
    return {
        "position": position,
        "nodes": [_node(world, node) for node in world.nodes.values()],
        "messages": _messages(world),
        "dynamic": world.has_dynamic_voters,
        "cuts": [list(link) for link in sorted(world.cuts)],
        "committed": len(world.watch.committed),
        "violations": [{"invariant": each.invariant, "text": each.text} for each in world.violations],
        "happened": [[_happening(each) for each in played.happened(at)] for at in range(position)],
    }


def story_view(script: Script) -> dict[str, Json]:
    """Return a script as the page plays it: for each rule the steps, and what to say before each of them and
    after the last."""
    plays: dict[str, Json] = {}
    for rule in script.rules:
        steps: list[Json] = []
        says: list[list[Json]] = [[]]
        for line in script.of(rule):
            _add(line, steps, says)
        plays[rule.value] = {"steps": steps, "says": [list(each) for each in says]}
    return {
        "title": script.title,
        "source": script.source,
        "start": start_to_json(script.start),
        "wrongRule": None if script.wrong_rule is None else _rule(script.wrong_rule),
        "plays": plays,
    }


def _add(line: Line, steps: list[Json], says: list[list[Json]]) -> None:
    match line.content:
        case Say(text):
            says[-1].append(text)
        case content if isinstance(content, Step):
            steps.append(step_to_json(content))
            says.append([])
        case _:
            pass


def rules_view() -> list[Json]:
    return [_rule(rule) for rule in WRONG_RULES.values()]


def _rule(rule: WrongRule) -> dict[str, Json]:
    return {"name": rule.name, "wrong": rule.wrong, "right": rule.right}


def _happening(happening: Happening) -> dict[str, Json]:
    return {"node": happening.node, "kind": happening.kind, "text": happening.text}


def _node(world: World, node: PlayNode) -> dict[str, Json]:
    core, voted = node.core, node.election.voted
    timers: list[Json] = [
        {"label": name if peer is None else f"{name} {peer}", "step": step_to_json(Fire(node.id, name, peer))}
        for name, peer in world.due(node)
    ]
    return {
        "id": node.id,
        "role": "down" if core is None else core.role.value,
        "epoch": node.election.epoch,
        "leader": None if core is None else core.leader,
        "voted": None if voted is None else voted.id,
        "records": [_record(each) for each in node.records],
        "logStart": node.log_start,
        "snapshot": 0 if node.snapshot is None else node.snapshot.end_offset,
        "checking": node.checking is not None,
        "voters": [] if core is None else list(core.voters.ids),
        "synced": node.synced,
        "committed": node.high_watermark,
        "paused": node.paused,
        "timers": timers,
        "stoppedBy": node.stopped_by,
    }


def _record(record: PlayRecord) -> dict[str, Json]:
    voters: Json = None if record.voters is None else list(record.voters.ids)
    return {"epoch": record.epoch, "text": record.text, "voters": voters}


def _messages(world: World) -> list[Json]:
    seen: dict[tuple[int, int, str], int] = {}
    found: list[Json] = []
    for packet in world.in_flight:
        name = packet.source, packet.destination, packet.kind
        seen[name] = seen.get(name, 0) + 1
        found.append(_message(world, packet, seen[name]))
    return found


def _message(world: World, packet: Packet, nth: int) -> dict[str, Json]:
    message = packet.message
    name = packet.source, packet.destination, packet.kind, nth
    return {
        "id": packet.id,
        "source": packet.source,
        "destination": packet.destination,
        "kind": packet.kind,
        "text": describe(message),
        "request": isinstance(message, Request),
        "ready": world.may_arrive(packet),
        "deliver": step_to_json(Deliver(*name)),
        "drop": step_to_json(Drop(*name)),
    }
