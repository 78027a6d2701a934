"""A certificate authority of our own, for an engine that brings none."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from atoll.errors import AtollError
from atoll.files import PRIVATE, write_bytes, write_text

_DAYS = 360


def make_authority(folder: Path) -> None:
    """A key and a certificate that signs others: ``ca.key`` and ``ca.pem``."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Atoll authority")
    usage = x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    certificate = (
        _builder(name, name, key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_bytes(folder / "ca.key", _pem(key), PRIVATE)
    write_bytes(folder / "ca.pem", certificate.public_bytes(serialization.Encoding.PEM), PRIVATE)


def make_server_certificate(authority: Path, folder: Path, host: str) -> None:
    """A server's ``server.key`` and ``server.pem``, for the name or address that sites dial."""
    request = make_server_request(folder / "server.key")
    write_text(folder / "server.pem", server_certificate(authority, host, request), PRIVATE)


def make_server_request(key_file: Path) -> str:
    """A server's secret key, and a request (PKCS #10) for a certificate of its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    write_bytes(key_file, _pem(key), PRIVATE)
    request = x509.CertificateSigningRequestBuilder().subject_name(_name("server"))
    return request.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM).decode()


def server_certificate(authority: Path, host: str, request: str) -> str:
    """The certificate of a server; of the request, only its key is taken over."""
    try:
        asked = x509.load_pem_x509_csr(request.encode())
        key = asked.public_key()
    except ValueError:
        raise AtollError("the request has no certificate request in it; make it anew.") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not asked.is_signature_valid:
        raise AtollError("the certificate request is not signed by its key; make it anew.")
    signer = serialization.load_pem_private_key((authority / "ca.key").read_bytes(), None)
    issuer = x509.load_pem_x509_certificate((authority / "ca.pem").read_bytes())
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    # Its own processes and its operator dial loopback.
    here = (x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1")))
    names: list[x509.GeneralName] = list(dict.fromkeys((_host(host), *here)))
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = (
        _builder(_name(host), issuer.subject, key)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(authority_id, critical=False)
        .sign(signer, hashes.SHA256())
    )
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def check_server_certificate(key_file: Path, certificate: str) -> None:
    """Refuse a certificate that is not for this key."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    try:
        own = x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        raise AtollError("the answer has no certificate; get it anew.") from None
    if own.public_key() != key.public_key():
        raise AtollError("the certificate is not for this kit's key; send its newest request.")


def make_site_key(private: Path, public: Path) -> None:
    """A site's key pair in the format of OpenSSH, as Flower reads it."""
    key = ec.generate_private_key(ec.SECP384R1())
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    )
    shown = key.public_key().public_bytes(
        serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
    )
    write_bytes(private, secret, PRIVATE)
    write_bytes(public, shown + b"\n", PRIVATE)


def checked_site_key(shown: str, site: str) -> str:
    """A site's public key as it came from there, in the one form that Flower registers."""
    try:
        key = serialization.load_ssh_public_key(shown.encode())
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise AtollError(f"the request of '{site}' has no key of Flower's in it; make it anew.")
    form = serialization.PublicFormat.OpenSSH
    return key.public_bytes(serialization.Encoding.OpenSSH, form).decode() + "\n"


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=_DAYS))
    )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
