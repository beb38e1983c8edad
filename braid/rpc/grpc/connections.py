"""The connections of one client to one replica.

Streams stay on the connection they began on until the server ends them (`TlsServing.connection_seconds`).
"""

import grpc

from braid.host.tls.connections import TlsConnections
from braid.host.tls.files import TlsFiles, TlsMaterial
from braid.host.token_files import TokenFiles
from braid.rpc.grpc.wire import CLIENT_OPTIONS
from braid.rpc.tls import channel_credentials

Connections = TlsConnections[grpc.aio.Channel]


def connections(address: str, files: TlsFiles | TokenFiles | None) -> Connections:
    """Connections in plaintext, or over TLS with `files`."""

    def open_one(material: TlsMaterial | None) -> grpc.aio.Channel:
        if material is None:
            return grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)
        return grpc.aio.secure_channel(address, channel_credentials(material), options=CLIENT_OPTIONS)

    return TlsConnections(files, open_one, lambda channel: channel.close())
