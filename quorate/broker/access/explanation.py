"""The reason of a decision in words, and what would change it."""

from collections.abc import Iterator

from quorate.broker.access.standard_authorizer import Decision, Rule
from quorate.broker.metadata.acl_index import AclIndex
from quorate.broker.metadata.acls import EVERYBODY, ResourceType


def reason_of(decision: Decision) -> str:
    """Return why a request is allowed or denied."""
    match decision.rule:
        case Rule.SUPER_USER:
            return "the principal is in super.users"
        case Rule.NODE:
            return "the principal is a node of the cluster"
        case Rule.MATCHING_ACL:
            return f"by {decision.acl}"
        case Rule.DEFAULT_ALLOW:
            return "no ACL is for this resource, and allow.everyone.if.no.acl.found is true"
        case Rule.DEFAULT_DENY:
            return "no ACL allows it"
        case Rule.NOT_LOADED:
            return "the node has not caught up with the metadata since its start"


def changes_of(
    decision: Decision, acls: AclIndex, kind: ResourceType, name: str, *, allow_everyone: bool
) -> Iterator[str]:
    """Yield what would change the decision. `acls`: at least those whose pattern means the resource."""
    match decision.rule:
        case Rule.SUPER_USER:
            yield "ACLs change nothing for a super user; take the principal out of super.users"
        case Rule.NODE:
            yield "ACLs change nothing here; only nodes have such a certificate"
        case Rule.MATCHING_ACL if decision.acl is not None:
            if decision.allowed:
                yield "an ACL that denies it, or no ACL that allows it"
            else:
                yield "no ACL that denies it; another that allows it changes nothing"
                if decision.acl.principal == EVERYBODY:
                    yield f"this one is for everybody ({EVERYBODY}); only super users pass it"
        case Rule.NOT_LOADED:
            yield "time: the node decides by ACLs once it has caught up"
        case Rule.DEFAULT_ALLOW:
            yield (
                "any ACL whose pattern means the resource, for whomever: then only those pass whom one allows"
            )
        case _:
            yield "an ACL that allows it"
            meaning = [acl for acl in acls.by_id.values() if acl.resource_type is kind and acl.concerns(name)]
            if allow_everyone and meaning:
                yield (
                    "allow.everyone.if.no.acl.found is true, but counts only where no ACL's pattern means "
                    f"the resource; {len(meaning)} do, such as {meaning[0]}"
                )
