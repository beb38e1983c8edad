"""ACLs (KIP-11, KIP-290) in Kafka's requests."""

from typing import Final

from aiokafka.protocol.admin import CreateAclsRequest

from braid.kernel.ports import Acl

SECURITY_DISABLED: Final = 54
_ANY_HOST: Final = "*"
_ALLOW: Final = 3
# As Kafka numbers them: ResourceType, PatternType, AclOperation.
_RESOURCES: Final = {"Topic": 2, "Group": 3, "Cluster": 4}
_PATTERNS: Final = {"Literal": 3, "Prefixed": 4}
_OPERATIONS: Final = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}


def create_acl_request(principal: str, acl: Acl) -> CreateAclsRequest:
    """Asks for one ACL that allows. One that is there already is not made twice."""
    return CreateAclsRequest(
        _RESOURCES[acl.resource],
        acl.name,
        _PATTERNS[acl.pattern],
        principal,
        _ANY_HOST,
        _OPERATIONS[acl.operation],
        _ALLOW,
    )
