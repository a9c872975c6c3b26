"""URLs of stores, and rules that all stores share."""

from pathlib import Path

import pytest
from apidiscovery_service.errors import InvalidConfiguration
from apidiscovery_service.store import Compacted, StoreRefused
from apidiscovery_service.store.etcd_options import EtcdOptions
from apidiscovery_service.store.keys import prefix_end
from apidiscovery_service.store.memory import MemoryStore
from apidiscovery_service.store.urls import StoreUrl, default_store_url, open_store
from etcd import EtcdServer
from hypothesis import example, given
from hypothesis import strategies as st

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@given(prefix=TEXTS, key=TEXTS)
@example(prefix="\ud7ff", key="\ud7ff\U0010ffff")
@example(prefix="a\U0010ffff", key="a\U0010ffff\U0010ffff")
@example(prefix="\U0010ffff", key="\U0010ffff")
def test_a_prefix_and_its_end_bound_exactly_what_begins_with_it(prefix: str, key: str) -> None:
    end = prefix_end(prefix)
    for text in (key, prefix + key):
        within = prefix <= text and (not end or text < end)
        in_bytes = prefix.encode() <= text.encode() and (not end or text.encode() < end.encode())
        assert within == in_bytes == text.startswith(prefix)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("memory", StoreUrl("memory")),
        ("sqlite:a b/c.sqlite", StoreUrl("sqlite", Path("a b/c.sqlite"))),
        ("sqlite:/var/x:y", StoreUrl("sqlite", Path("/var/x:y"))),
        ("etcd://a:1/p", StoreUrl("etcd", None, ("a:1",), "p")),
        (
            "etcd://etcd-0.etcd:2379,10.0.0.1:2,[::1]:65535/apis/east/",
            StoreUrl("etcd", None, ("etcd-0.etcd:2379", "10.0.0.1:2", "[::1]:65535"), "apis/east"),
        ),
    ],
)
def test_a_url_is_read(text: str, url: StoreUrl) -> None:
    assert StoreUrl.parse(text) == url
    assert StoreUrl.parse(str(url)) == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "wanted memory, sqlite:PATH or etcd://"),
        ("sqlite:", "wanted memory"),
        ("redis://a:1/p", "begins with 'redis'"),
        ("etcd:a:1/p", "wanted memory"),
        ("etcd://a:1", "PREFIX is missing"),
        ("etcd://a:1//", "PREFIX is missing"),
        ("etcd://a/p", "'a' is not HOST:PORT"),
        ("etcd://a:0/p", "'a:0' is not HOST:PORT"),
        ("etcd://a:65536/p", "'a:65536' is not HOST:PORT"),
        ("etcd://a:1,/p", "'' is not HOST:PORT"),
        ("etcd://::1:1/p", "'::1:1' is not HOST:PORT"),
        ("etcd://me:s3cret@a:1/p", "must not contain credentials"),
    ],
)
def test_errors_of_urls_do_not_show_secrets(text: str, message: str) -> None:
    with pytest.raises(InvalidConfiguration) as caught:
        StoreUrl.parse(text)
    assert message in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_the_default_is_in_the_users_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    default = "sqlite:/home/me/.local/state/apidiscovery/store.sqlite"
    assert default_store_url() == default
    monkeypatch.setenv("XDG_STATE_HOME", "not/absolute")
    assert default_store_url() == default
    monkeypatch.setenv("XDG_STATE_HOME", "/var/state")
    assert default_store_url() == "sqlite:/var/state/apidiscovery/store.sqlite"


async def test_each_url_opens_its_store(tmp_path: Path, etcd: EtcdServer) -> None:
    urls = ("memory", f"sqlite:{tmp_path / 'a.sqlite'}", f"etcd://{etcd.endpoint}/urls")
    for url in urls:
        store = await open_store(StoreUrl.parse(url), EtcdOptions())
        entry = await store.put("a", b"")
        assert await store.get("a") == entry
        await store.close()
    with pytest.raises(StoreRefused):
        await open_store(StoreUrl.parse(f"sqlite:{tmp_path}"), EtcdOptions())


async def test_memory_forgets_changes_beyond_its_history() -> None:
    store = MemoryStore(history=2)
    for key in "abc":
        await store.put(key, b"")
    with pytest.raises(Compacted, match="revision 0 is not within 1 and 3"):
        await anext(store.watch("", 0))
    assert len((await anext(store.watch("", 1))).changes) == 2
