"""The faults of a run: of processes, hosts, disks, network and voters."""
