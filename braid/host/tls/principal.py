"""Reads the principal of this side's certificate from its PEM file, as the other side of a connection would."""

from braid.host.tls.paths import Tls
from braid.kernel.errors import Invalid
from braid.kernel.principals import principal_of


def own_principal(tls: Tls) -> str:
    """The principal of this process's own certificate.

    Raises:
        Invalid: the file cannot be read, or holds no certificate.
        Unauthenticated: the certificate names nobody.
    """
    from cryptography import x509

    try:
        leaf = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    except (OSError, ValueError) as error:
        raise Invalid(f"{tls.certificate} holds no certificate: {error}", field="tls.certificate") from error
    try:
        names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return principal_of((), (), leaf.subject.rfc4514_string())
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    return principal_of(uris, names.get_values_for_type(x509.DNSName), leaf.subject.rfc4514_string())
