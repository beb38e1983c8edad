"""The verb about Kafka's ACLs: `braid acls`."""
