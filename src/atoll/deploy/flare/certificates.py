"""Certificates for NVIDIA FLARE: a site or a server asks, the authority's root key signs.

FLARE's certificates are plain x509. Keys are RSA, because FLARE's client signs with its own when it
logs in.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from atoll.errors import AtollError
from atoll.files import PRIVATE, write_bytes

_BITS, _DAYS = 2048, 360


class Subject(NamedTuple):
    """Whom FLARE takes the owner of a certificate for."""

    name: str
    organization: str
    role: str | None = None


def make_request(key_file: Path, site: str) -> str:
    """A new secret key, and a certificate signing request (PKCS #10) for its public half."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=_BITS)
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    write_bytes(key_file, secret, PRIVATE)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, site)])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(key, hashes.SHA256())
    return request.public_bytes(serialization.Encoding.PEM).decode()


def signed(
    state: Path, asks: str, subject: Subject, request: str, host: str | None = None
) -> dict[str, str]:
    """The certificate of whoever ``asks``, and the root's. Of the request, only its key is taken
    over. ``host`` is the name that a server is dialled by."""
    from nvflare.lighter.utils import Identity, generate_cert, serialize_cert

    asked = _read(request, asks)
    known = json.loads(state.read_text())
    root = x509.load_pem_x509_certificate(known["root_cert"].encode())
    key = serialization.load_pem_private_key(known["root_pri_key"].encode(), None)
    now = datetime.datetime.now(datetime.UTC)
    if root.not_valid_after_utc <= now:
        raise AtollError("the authority's root certificate has expired; make new kits elsewhere.")
    [issuer] = root.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    certificate = generate_cert(
        subject=Identity(*subject),
        issuer=Identity(str(issuer.value)),
        signing_pri_key=key,
        subject_pub_key=asked.public_key(),
        server_default_host=host,
        not_valid_before=now,
        not_valid_after=min(root.not_valid_after_utc, now + datetime.timedelta(days=_DAYS)),
    )
    return {"certificate": serialize_cert(certificate).decode(), "root": known["root_cert"]}


def check_given(key_file: Path, certificate: bytes, root: bytes, site: str) -> None:
    """Refuse a certificate that is not for this key and name, or not by this root."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    try:
        own, authority = (x509.load_pem_x509_certificate(pem) for pem in (certificate, root))
        signer = authority.public_key()
        assert isinstance(signer, rsa.RSAPublicKey)
        assert own.signature_hash_algorithm is not None
        signer.verify(
            own.signature,
            own.tbs_certificate_bytes,
            padding.PKCS1v15(),
            own.signature_hash_algorithm,
        )
    except (AssertionError, InvalidSignature, ValueError):
        raise AtollError("the certificate is not of the root beside it; get it anew.") from None
    named = [str(n.value) for n in own.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if own.public_key() != key.public_key() or named != [site]:
        raise AtollError("the certificate is not for this kit's key; send its newest request.")


def _read(request: str, site: str) -> x509.CertificateSigningRequest:
    try:
        asked = x509.load_pem_x509_csr(request.encode())
        key = asked.public_key()
    except ValueError:
        raise AtollError(f"the request of '{site}' has no certificate request in it.") from None
    right = asked.is_signature_valid and isinstance(key, rsa.RSAPublicKey)
    named = [str(n.value) for n in asked.subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    if not right or named != [site] or (isinstance(key, rsa.RSAPublicKey) and key.key_size < _BITS):
        raise AtollError(
            f"the certificate request of '{site}' is not for an RSA key of {_BITS} bits and that "
            f"name, or not signed by the key; have the site make it anew."
        )
    return asked
