"""Files of sealing keys, on a simulated disk."""

import itertools
from contextlib import closing

from quorate.broker.access.sealing import Sealer
from quorate.simulation.world.simulated_disk import SimulatedDisk

PATH = "/secrets/sealing.key"


def disk_with(text: str) -> SimulatedDisk:
    disk = SimulatedDisk()
    write_keys(disk, text)
    return disk


def write_keys(disk: SimulatedDisk, text: str) -> None:
    disk.make_folder("/secrets")
    if disk.exists(PATH):
        disk.remove(PATH)
    with closing(disk.open(PATH, create=True)) as file:
        file.append([text.encode()])


def sealer_with(text: str) -> Sealer:
    """A sealer whose clock goes on by a minute each time that it is read."""
    return Sealer(disk_with(text), PATH, now=itertools.count(60.0, 60.0).__next__)
