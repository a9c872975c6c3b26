"""Content codings: chosen by RFC 9110, section 12.5.3, and reversible."""

import gzip

import pytest
import zstandard
from apidiscovery_service.encoding.compression import Coding, choose, coding_for, compress
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("accept_encoding", "coding"),
    [
        pytest.param("", "identity", id="absent"),
        pytest.param("gzip", "gzip", id="gzip"),
        pytest.param("zstd", "zstd", id="zstd"),
        pytest.param("x-gzip", "gzip", id="x-gzip"),
        pytest.param("GZip", "gzip", id="case-insensitive"),
        pytest.param("gzip, zstd", "zstd", id="ours-among-equals"),
        pytest.param("gzip, deflate, br, zstd", "zstd", id="browser"),
        pytest.param("gzip, deflate, br", "gzip", id="older-browser"),
        pytest.param("gzip;q=1.0", "gzip", id="weight"),
        pytest.param("gzip;q=1.0, zstd;q=0.5", "gzip", id="heavier"),
        pytest.param("gzip;Q=0.1,zstd;q=0.2", "zstd", id="capital-Q"),
        pytest.param("gzip ; q=0.5 , identity ; q=0.1", "gzip", id="white-space"),
        pytest.param("gzip;q=0", "identity", id="refused"),
        pytest.param("gzip;q=0.000", "identity", id="refused-in-full"),
        pytest.param("zstd;q=0, gzip;q=0.001", "gzip", id="least-weight"),
        pytest.param("*", "zstd", id="any"),
        pytest.param("*;q=0", "identity", id="none-but-identity"),
        pytest.param("*;q=0, gzip", "gzip", id="none-but-gzip"),
        pytest.param("*, zstd;q=0", "gzip", id="any-but-zstd"),
        pytest.param("identity", "identity", id="identity"),
        pytest.param("identity, gzip;q=0.5", "identity", id="identity-preferred"),
        pytest.param("identity;q=0.5, gzip", "gzip", id="identity-less-liked"),
        pytest.param("identity, gzip", "gzip", id="identity-alike"),
        pytest.param("identity;q=0, gzip;q=0", "identity", id="everything-refused"),
        pytest.param("identity;q=0, *;q=0", "identity", id="everything-refused-by-any"),
        pytest.param("br, deflate, compress", "identity", id="nothing-that-is-offered"),
        pytest.param("gzip;q=x", "identity", id="weight-that-is-no-number"),
        pytest.param("gzip;q=nan", "identity", id="weight-that-is-nan"),
        pytest.param("gzipp, xgzip, gzi", "identity", id="lookalikes"),
        pytest.param(",,gzip,", "gzip", id="empty-elements"),
    ],
)
def test_an_accept_encoding_selects_this_coding(accept_encoding: str, coding: Coding) -> None:
    assert choose(accept_encoding) == coding


def refuses(accept_encoding: str, coding: Coding) -> bool:
    """Return whether no element can allow a coding."""
    names = [part.split(";")[0].strip().lower() for part in accept_encoding.split(",")]
    return not {coding, "*", "x-gzip" if coding == "gzip" else coding} & set(names)


ELEMENTS = st.builds(
    "{}{}".format,
    st.sampled_from(["gzip", "zstd", "identity", "*", "br", "x-gzip", "", "GZIP"]),
    st.sampled_from(["", ";q=0", ";q=0.5", ";q=1", ";q=x", ";", "; q = 1"]),
)


@given(st.lists(ELEMENTS | st.text(max_size=10), max_size=6).map(",".join))
def test_a_coding_that_is_not_named_is_never_chosen(accept_encoding: str) -> None:
    coding = choose(accept_encoding)
    assert coding == "identity" or not refuses(accept_encoding, coding)


@given(st.binary(max_size=5000))
def test_compression_is_deterministic_and_reversible(content: bytes) -> None:
    packed, packed_too = compress(content, "gzip"), compress(content, "zstd")
    assert (packed, packed_too) == (compress(content, "gzip"), compress(content, "zstd"))
    assert gzip.decompress(packed) == content
    assert zstandard.ZstdDecompressor().decompress(packed_too) == content
    assert compress(content, "identity") is content


@pytest.mark.parametrize("wanted", ["identity", "gzip", "zstd"])
def test_a_small_body_stays_as_it_is(wanted: Coding) -> None:
    assert coding_for(1023, wanted) == "identity"
    assert coding_for(1024, wanted) == wanted


def test_a_gzip_body_has_no_time_and_no_system() -> None:
    assert compress(b"content", "gzip")[3:8] == bytes(5)
