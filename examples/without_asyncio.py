"""The same SDK in ordinary threads, until no record comes: `python examples/without_asyncio.py [ENDPOINT]`."""

import sys

import braid.sync

IDLE_SECONDS = 5.0


def main(endpoint: str | None = None) -> None:
    seen = 0
    with braid.sync.connect(endpoint, client_id="example-threads") as mesh:
        with mesh.producer("logs") as producer:
            print("sent one more, at offset", producer.send(b"from a thread", key=b"host-1").offset)
        with mesh.consumer(["logs"], group="example-threads") as consumer:
            while (record := consumer.take(IDLE_SECONDS)) is not None:
                record.ack()
                seen += 1
    print(f"saw {seen} records")


if __name__ == "__main__":
    main(*sys.argv[1:2])
