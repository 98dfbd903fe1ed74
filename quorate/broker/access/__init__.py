"""The decision who may do what, about each request (KIP-11, KIP-801).

Handlers ask an `Authorizer`. `OPEN` allows everything; a node whose `authorizer.class.name` names Kafka's
StandardAuthorizer decides by the ACLs in the metadata.
"""
