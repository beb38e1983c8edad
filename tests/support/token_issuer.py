"""An issuer of signed tokens for tests: its keys, what it signs, and a real HTTP server that publishes its keys."""

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from braid.host.tls.paths import Tls

ISSUER = "https://id.test"
AUDIENCE = "braid"


class TokenIssuer:
    """Signs tokens; `keys` is what it publishes.

    Attributes:
        key_id: Of the key that signs now.
    """

    def __init__(self) -> None:
        self.key_id = ""
        self._private: dict[str, Any] = {}
        self._published: dict[str, dict[str, Any]] = {}
        self.rotate("one")

    def rotate(self, key_id: str, *, algorithm: str = "ES256") -> None:
        """Signs with another key from now on, and publishes it beside the others."""
        key: Any = ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else rsa.generate_private_key(
            65_537, 2_048
        )  # fmt: skip
        form = ECAlgorithm if algorithm == "ES256" else RSAAlgorithm
        public: dict[str, Any] = form.to_jwk(key.public_key(), as_dict=True)
        self._private[key_id] = (algorithm, key)
        self._published[key_id] = {**public, "kid": key_id, "use": "sig"}
        self.key_id = key_id

    def withdraw(self, key_id: str) -> None:
        """Publishes a key no more."""
        del self._published[key_id]

    @property
    def keys(self) -> bytes:
        """The set as it is published."""
        return json.dumps({"keys": list(self._published.values())}).encode()

    def token(
        self,
        name: object = "alice",
        *,
        seconds: float = 300.0,
        now: float | None = None,
        headers: Mapping[str, object] | None = None,
        **claims: object,
    ) -> str:
        """A token; `claims` replace or add to the usual ones, and None leaves one out."""
        begun = time.time() if now is None else now
        whole = {"sub": name, "iss": ISSUER, "aud": AUDIENCE, "iat": int(begun), "exp": begun + seconds, **claims}
        given = {key: value for key, value in whole.items() if value is not None}
        algorithm, key = self._private[self.key_id]
        return jwt.PyJWS().encode(
            json.dumps(given).encode(), key, algorithm, {"kid": self.key_id, "typ": "JWT", **(headers or {})}
        )


class KeyServer:
    """Publishes an issuer's keys over HTTP.

    Attributes:
        asked: How often it was asked.
        body: What it answers with in the place of keys; None for them.
        status: Of its answers.
        location: Where it redirects to; empty for nowhere.
        pause_seconds: Before an answer.
    """

    def __init__(self, issuer: TokenIssuer, tls: Tls | None) -> None:
        self.asked = 0
        self.body: bytes | None = None
        self.status = 200
        self.location = ""
        self.pause_seconds = 0.0
        self.issuer = issuer
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls.certificate, tls.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_address[1]}/keys"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it; nobody answers there any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(30)


@contextlib.contextmanager
def key_server(issuer: TokenIssuer, tls: Tls | None = None) -> Iterator[KeyServer]:
    """One that answers, over TLS where it is given a certificate."""
    made = KeyServer(issuer, tls)
    try:
        yield made
    finally:
        made.stop()


def write_private(path: Path, text: str) -> Path:
    """Writes a file whole that nobody else may read."""
    part = path.with_name(f".{path.name}.part")
    part.touch(mode=0o600)
    part.write_text(text)
    part.replace(path)
    return path


def _handler(server: KeyServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.asked += 1
            time.sleep(server.pause_seconds)
            answer = server.issuer.keys if server.body is None else server.body
            self.send_response(302 if server.location else server.status)
            if server.location:
                self.send_header("Location", server.location)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Says nothing."""

    return Handler
