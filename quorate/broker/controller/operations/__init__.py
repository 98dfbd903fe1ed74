"""The operations of the controller: pure functions from an image and a request to records.

Each use those above it in this list:

  `outcome`, `directories`
    What an operation returns. The log directories of replicas, and `may_lead`.
  `elections`, `leaderships`, `reassignments`
    Elections of one partition, and of those of an image by their settings. Reassignments end with one.
  `alter_partition`, `brokers`, `directory_changes`, `requested_elections`
    The requests of brokers, and the elections that an administrator asks for.
  `topic_limits`, `placement`, `topic_lifecycle`, `number_of_partitions`
    Topics: created, deleted, with more partitions and with fewer; the placement of new replicas.
  `alter_configs`, `client_quotas`, `acls`, `features`, `producer_id_blocks`
  `alter_configs`, `client_quotas`, `scram_credentials`, `features`, `producer_id_blocks`
    One API each.
"""
