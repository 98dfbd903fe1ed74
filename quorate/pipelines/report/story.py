"""Incidents in sentences."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from quorate.pipelines.report.facts import Facts

_WHY: Final[Mapping[str, str]] = {
    "BROKER_FENCED": "went silent",
    "BROKER_GONE": "lost its process",
    "BROKER_RESTARTED": "was restarted",
    "BROKER_UNREGISTERED": "was removed by an administrator",
    "CONTROLLED_SHUTDOWN": "was shut down in order",
}


def time_text(timestamp_ms: int | None) -> str:
    """Return a time of day in UTC with its date, as `2026-11-22 03:01:38.082`."""
    if timestamp_ms is None:
        return ""
    return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def duration_text(duration_ms: int | None) -> str:
    """Return a duration, as `3.31 s` or `2 h 5 min`; empty for None."""
    if duration_ms is None:
        return ""
    if abs(duration_ms) < 60_000:
        return f"{duration_ms / 1000:.2f} s"
    minutes, seconds = divmod(round(duration_ms / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def count_text(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


def summary(facts: Facts) -> list[str]:
    """Return what happened in a few sentences."""
    incidents = facts.incidents
    who = "A broker was" if len(incidents) == 1 else "Brokers were"
    longest = max((each["longest_outage_ms"] or 0 for each in incidents), default=0)
    sentences = [
        f"The log from offset {facts.first_offset:,} to {facts.last_offset:,} covers "
        f"{time_text(facts.first_ms)} to {time_text(facts.last_ms)} UTC. At its end the cluster has "
        f"{count_text(facts.brokers, 'broker')} and {count_text(facts.partitions, 'partition')}.",
        f"{who} out of service {_times(len(incidents))}." if incidents else "No broker was out of service.",
    ]
    if longest:
        sentences.append(
            f"The longest time until a partition had another leader was {duration_text(longest)}."
        )
    if facts.controller_failovers:
        sentences.append(f"The active controller changed {_times(len(facts.controller_failovers))}.")
    if facts.reassignments:
        sentences.append(f"There were {count_text(len(facts.reassignments), 'reassignment')} of partitions.")
    return sentences


def incident_title(incident: Mapping[str, Any]) -> str:
    """Return the headline of an incident."""
    why = _WHY.get(incident["reason"], f"was out of service ({incident['reason']})")
    return f"Broker {incident['broker_id']} {why}"


def incident_story(incident: Mapping[str, Any]) -> list[str]:
    """Return the sentences of an incident: its begin, its consequences, its end."""
    return [*_begin(incident), *_consequences(incident), _end(incident)]


def _begin(incident: Mapping[str, Any]) -> list[str]:
    fenced, heard = incident["valid_from"], incident["last_heard"]
    at = f"at {time_text(fenced)} (offset {incident['from_offset']:,}, {incident['reason']})"
    if heard is not None and heard <= fenced:
        begin = f"Last heard at {time_text(heard)}, fenced {at}, {duration_text(fenced - heard)} later."
    else:
        begin = f"Out of service {at}."
    if not incident["led_quorum"]:
        return [begin]
    unknown = ": its successor does not know when it was last heard" if heard is None else ""
    return [begin, f"It was the active controller{unknown}."]


def _consequences(incident: Mapping[str, Any]) -> list[str]:
    sentences = []
    if incident["led"]:
        median, longest = duration_text(incident["outage_ms"]), duration_text(incident["longest_outage_ms"])
        sentences.append(
            f"It led {count_text(incident['led'], 'partition')}, which had another leader after "
            + (f"{longest}." if median == longest else f"{median} (median), the last after {longest}.")
        )
    if incident["partitions"]:
        topics = incident["topics"]
        named = ", ".join(topics[:5]) + (f" and {len(topics) - 5} more" if len(topics) > 5 else "")
        until = incident["replicated_at"]
        sentences.append(
            f"{count_text(incident['partitions'], 'partition')} of {named} became under-replicated, "
            + (f"the last until {time_text(until)}." if until is not None else "some of them still are.")
        )
    return sentences


def _end(incident: Mapping[str, Any]) -> str:
    ended, by = incident["valid_to"], incident["ended_by"]
    if ended is None:
        return "It is still out of service."
    if by == "restart":
        return f"What follows until the snapshot of offset {incident['to_offset']:,} is not in the log."
    if by == "delete":
        return f"It was unregistered at {time_text(ended)}."
    process = "The same process" if incident["same_process"] else "Another process"
    return (
        f"{process} was back in service at {time_text(ended)} (offset {incident['to_offset']:,}), "
        f"{duration_text(incident['duration_ms'])} later."
    )
