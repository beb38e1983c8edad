"""The same SDK in ordinary threads: `python examples/without_asyncio.py 127.0.0.1:7401`."""

import sys

import braid.sync


def main(endpoint: str, wanted: int = 1_000) -> None:
    seen = 0
    with braid.sync.connect(endpoint, client_id="example-threads") as mesh:
        with mesh.producer("logs") as producer:
            print("sent one more, at offset", producer.send(b"from a thread", key=b"host-1").offset)
        with mesh.consumer(["logs"], group="example-threads") as consumer:
            for record in consumer:
                record.ack()
                seen += 1
                if seen == wanted:
                    break
    print(f"saw {seen} records")


if __name__ == "__main__":
    main(sys.argv[1])
