"""Values that name their schema: Avro, Protobuf and JSON in the wire format of Confluent's Schema Registry."""
