"""Certificates for tests: an authority that signs for servers and clients, made afresh."""

import ipaddress
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class KeyPair(NamedTuple):
    """Paths of a certificate and of its key, both PEM."""

    cert_file: Path
    key_file: Path


class Authority:
    """A certificate authority, whose files are in a folder.

    Attributes:
        ca_file: Its own certificate.
    """

    def __init__(self, folder: Path, name: str = "ca") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = name
        self._issued = 0
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key_id = x509.SubjectKeyIdentifier.from_public_key(self._key.public_key())
        self.ca_file = folder / f"{name}.crt"
        self.ca_file.write_bytes(_pem(self._own_certificate()))

    def server(self, names: list[str], *, days: int = 1, expired: bool = False) -> KeyPair:
        """Return a certificate for a server of these host names and IP addresses."""
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        builder = self._builder(subject, days=days, expired=expired).add_extension(
            x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False
        )
        return self._issue(builder, ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, user: str, groups: list[str], *, expired: bool = False) -> KeyPair:
        """Return a certificate of a user: CN is the user, each O a group, as in Kubernetes."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        builder = self._builder(x509.Name(attributes), days=1, expired=expired)
        return self._issue(builder, ExtendedKeyUsageOID.CLIENT_AUTH)

    def trusted(self, client: KeyPair | None = None) -> ssl.SSLContext:
        """Return the context of a client that trusts its servers, with a certificate or without."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if client:
            context.load_cert_chain(*client)
        return context

    def _own_certificate(self) -> x509.Certificate:
        return (
            self._builder(self._subject, days=1, expired=False)
            .public_key(self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_key_usage(certificate_authority=True), critical=True)
            .add_extension(self._key_id, critical=False)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, *, days: int, expired: bool) -> x509.CertificateBuilder:
        end = datetime.now(UTC) + (timedelta(hours=-1) if expired else timedelta(days=days))
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - timedelta(days=days, hours=1))
            .not_valid_after(end)
        )

    def _issue(self, builder: x509.CertificateBuilder, usage: x509.ObjectIdentifier) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            builder.public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(certificate_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(self._key_id),
                critical=False,
            )
            .sign(self._key, hashes.SHA256())
        )
        self._issued += 1
        stem = f"{self._name}-{self._issued}"
        pair = KeyPair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        pair.cert_file.write_bytes(_pem(certificate))
        pair.key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        pair.key_file.chmod(0o600)
        return pair


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, certificate_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=certificate_authority,
        crl_sign=certificate_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
