"""ACLs: who may, or may not, do what with which resources (KIP-11, KIP-290)."""

import enum


class ResourceType(enum.IntEnum):
    """The kinds of resources, with Kafka's numbers."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    """Only the name `CLUSTER_NAME`."""
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclOperation(enum.IntEnum):
    """What somebody does with a resource, with Kafka's numbers."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


CLUSTER_NAME = "kafka-cluster"
"""The name of the one resource of type `CLUSTER`."""
