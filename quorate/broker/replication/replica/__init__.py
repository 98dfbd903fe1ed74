"""The replicas of this broker: the state of one partition, as leader and as follower, and where all of them
are found."""
