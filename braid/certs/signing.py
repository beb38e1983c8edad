"""Creates keys and X.509 certificates (RFC 5280, SPIFFE X.509-SVID) by the library `cryptography`."""

from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from braid.certs.contents import LeafContents, Reached, Validity
from braid.certs.identity import Identity, parse_spiffe_id, trust_domain_id
from braid.host import secret_files
from braid.kernel.errors import Invalid

PrivateKey = ec.EllipticCurvePrivateKey
# Room for one certificate of a CA below a root: the one by which an old root vouches for its successor.
_ROOT_PATH_LENGTH: Final = 1


class Ca(NamedTuple):
    """A CA's certificate and key, which can sign."""

    certificate: x509.Certificate
    key: PrivateKey

    @property
    def trust_domain(self) -> str:
        """The trust domain of its mesh."""
        return parse_spiffe_id(_uris(self.certificate)[0])[0]


def new_key() -> PrivateKey:
    """Creates an ECDSA key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def sign_root(trust_domain: str, validity: Validity) -> Ca:
    """Creates a self-signed CA. Its subject is unique, so that chains never mix two roots of one mesh."""
    key = new_key()
    serial = x509.random_serial_number()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"Braid CA {serial:x}"[:24])])
    names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(trust_domain_id(trust_domain))])
    certificate = _ca_builder(name, key.public_key(), validity, _ROOT_PATH_LENGTH, names).issuer_name(name)
    return Ca(certificate.serial_number(serial).sign(key, hashes.SHA256()), key)


def sign_cross(root: x509.Certificate, by: Ca) -> x509.Certificate:
    """Signs a new root by the old one: clients that trust only the old one accept leaves of the new one."""
    key = root.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey), "roots of this package have such keys"
    ends = min(root.not_valid_after_utc, by.certificate.not_valid_after_utc)
    names = root.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    builder = _ca_builder(root.subject, key, Validity(root.not_valid_before_utc, ends), _ROOT_PATH_LENGTH - 1, names)
    builder = builder.issuer_name(by.certificate.subject).serial_number(x509.random_serial_number())
    return builder.add_extension(_authority(by.certificate), critical=False).sign(by.key, hashes.SHA256())


def sign_leaf(contents: LeafContents, key: PrivateKey, by: Ca) -> x509.Certificate:
    """Signs a leaf with these contents."""
    usages = [ExtendedKeyUsageOID.CLIENT_AUTH]
    if contents.serves:
        usages.insert(0, ExtendedKeyUsageOID.SERVER_AUTH)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, contents.identity.name)]))
        .issuer_name(by.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(contents.validity.begins)
        .not_valid_after(contents.validity.ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(_alt_names(contents), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(_authority(by.certificate), critical=False)
        .sign(by.key, hashes.SHA256())
    )


def read_leaf(certificate: x509.Certificate) -> LeafContents:
    """Reads the contents of a leaf. Raises `Invalid` if its names are not those of a mesh's own certificates."""
    uris = _uris(certificate)
    if len(uris) != 1:
        raise Invalid(f"a certificate has {len(uris)} URIs, not one SPIFFE id")
    trust_domain, path = parse_spiffe_id(uris[0])
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    ips = tuple(str(each) for each in names.get_values_for_type(x509.IPAddress))
    reached = Reached(tuple(names.get_values_for_type(x509.DNSName)), ips)
    return LeafContents(Identity.parse(path), trust_domain, reached, validity_of(certificate))


def validity_of(certificate: x509.Certificate) -> Validity:
    """The validity of a certificate."""
    return Validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc)


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether a CA's key signed a certificate."""
    found = certificate.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    return found.key_identifier == _authority(ca).key_identifier


def certificates_pem(*certificates: x509.Certificate) -> bytes:
    """Certificates in PEM, one after the other."""
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def load_certificates(path: Path) -> list[x509.Certificate]:
    """The certificates in a PEM file. Raises `Invalid` when there is none."""
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except (OSError, ValueError) as error:
        raise Invalid(f"{path} gives no certificate: {error}", remedy="put it back from a backup") from error


def key_pem(key: PrivateKey) -> bytes:
    """A private key in PEM (PKCS #8), not encrypted: the mode of its file protects it."""
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def load_key(path: Path) -> PrivateKey:
    """The private key in a PEM file. Raises `Invalid` if it holds no ECDSA key, or others may read it."""
    try:
        pem, exposure = secret_files.read_bytes(path)
        key = serialization.load_pem_private_key(pem, password=None)
    except (OSError, ValueError, TypeError) as error:
        raise Invalid(f"{path} gives no private key: {error}", remedy="put it back from a backup") from error
    if exposure:
        raise Invalid(f"{path} {exposure}", remedy=f"chmod 600 {path}")
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise Invalid(f"{path} holds a key of another kind", remedy="put it back from a backup")
    return key


def _ca_builder(
    name: x509.Name,
    key: ec.EllipticCurvePublicKey,
    validity: Validity,
    path_length: int,
    names: x509.SubjectAlternativeName,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .public_key(key)
        .not_valid_before(validity.begins)
        .not_valid_after(validity.ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .add_extension(names, critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    """X.509-SVID, section 4.3: a leaf signs handshakes and never certificates."""
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _authority(ca: x509.Certificate) -> x509.AuthorityKeyIdentifier:
    subject = ca.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(subject)


def _alt_names(contents: LeafContents) -> x509.SubjectAlternativeName:
    return x509.SubjectAlternativeName(
        [
            x509.UniformResourceIdentifier(contents.spiffe_id),
            *(x509.DNSName(name) for name in contents.reached.dns),
            *(x509.IPAddress(ip_address(each)) for each in contents.reached.ips),
        ]
    )


def _uris(certificate: x509.Certificate) -> list[str]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return names.get_values_for_type(x509.UniformResourceIdentifier)
