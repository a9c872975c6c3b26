"""Until when certificates are valid, compared with what another library reads."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from apidiscovery_kubeconfig.validity import valid_until
from certificates import Authority
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def _certificate(ends: datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "a" * 60)])
    key = ec.generate_private_key(ec.SECP256R1())
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.serial_number(2**150).public_key(key.public_key())
    builder = builder.not_valid_before(datetime(1970, 1, 1, tzinfo=UTC)).not_valid_after(ends)
    return builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


@pytest.mark.parametrize(
    "ends",
    [
        datetime(1999, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2050, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    ],
)
def test_the_end_is_read(ends: datetime) -> None:
    assert valid_until(_certificate(ends)) == ends


def test_the_first_certificate_of_a_chain_counts(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.server(["a.test"], days=90)
    text = pair.cert_file.read_bytes()
    wanted = x509.load_pem_x509_certificate(text).not_valid_after_utc
    assert valid_until(b"# a comment\n" + text + authority.ca_file.read_bytes()) == wanted


@pytest.mark.parametrize("cut", [0, 1, 2, 3, 10, 60, 120])
def test_an_unreadable_certificate_has_no_end(cut: int) -> None:
    whole = _certificate(datetime(2030, 1, 1, tzinfo=UTC))
    assert valid_until(whole[:cut]) is None
    assert valid_until(b"-----BEGIN CERTIFICATE-----\nAA=\n-----END CERTIFICATE-----") is None
