"""An OAuth 2.0 token endpoint of tests: signs tokens (RS256) that a broker can check, and does what a test says."""

import base64
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote_plus

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.support.planted import credential
from tests.support.tls_files import CertificateFiles

_KEY_ID = "one"


class TokenServer:
    """Answers client credentials with tokens.

    Attributes:
        secrets: The secret of each client.
        asked: What clients sent, newest last: form fields and the client's id.
        lifetime_seconds: Of the tokens.
        release: Answers wait for it.
        answer: Status and body in the place of a token, where a test wants one.
    """

    def __init__(self, files: CertificateFiles | None) -> None:
        """Speaks TLS with a certificate, or plain text without one."""
        self.secrets = {"shop": credential("of a client")}
        self.asked: list[dict[str, str]] = []
        self.lifetime_seconds = 300
        self.answer: tuple[int, bytes] | None = None
        self.release = threading.Event()
        self.release.set()
        self._key = rsa.generate_private_key(65_537, 2_048)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        if files is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.certificate, files.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if files is None else 'https'}://127.0.0.1:{self._server.server_address[1]}/token"

    def token(self, subject: str, *, seconds: int = 300, audience: str = "kafka") -> str:
        """A signed token (RFC 7515, RFC 7519)."""
        now = int(time.time())
        claims = {"sub": subject, "iat": now, "exp": now + seconds, "aud": audience, "scope": "kafka"}
        signed = ".".join(_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": _KEY_ID}, claims))
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def write_keys(self, path: Path) -> None:
        """The public key, as brokers read it (RFC 7517)."""
        numbers = self._key.public_key().public_numbers()
        key = {"kty": "RSA", "kid": _KEY_ID, "alg": "RS256", "use": "sig"}
        key |= {name: _encoded(number.to_bytes((number.bit_length() + 7) // 8)) for name, number in
                (("n", numbers.n), ("e", numbers.e))}  # fmt: skip
        path.write_text(json.dumps({"keys": [key]}))

    def run(self) -> None:
        """Serves until it is stopped."""
        self._server.serve_forever(poll_interval=0.05)

    def stop(self) -> None:
        """Ends it."""
        self.release.set()
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                client, _, secret = base64.b64decode(self.headers["Authorization"].split()[1]).decode().partition(":")
                server.asked.append({name: values[0] for name, values in parse_qs(body).items()} | {"client": client})
                server.release.wait(30)
                status, answer = server._answered(client, secret)
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:
                """Says nothing."""

        return Handler

    def _answered(self, client: str, secret: str) -> tuple[int, bytes]:

        if self.answer is not None:
            return self.answer
        if self.secrets.get(unquote_plus(client)) != unquote_plus(secret):
            return 401, b'{"error": "invalid_client"}'
        token = self.token(client, seconds=self.lifetime_seconds)
        found = {"access_token": token, "token_type": "Bearer", "expires_in": self.lifetime_seconds}
        return 200, json.dumps(found).encode()


@contextlib.contextmanager
def token_server(files: CertificateFiles | None = None) -> Iterator[TokenServer]:
    """One that answers."""
    made = TokenServer(files)
    thread = threading.Thread(target=made.run, name="token-server", daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.stop()
        thread.join(30)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
