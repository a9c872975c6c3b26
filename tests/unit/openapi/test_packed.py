"""Packed texts, which concurrent readers share."""

import pickle

from apidiscovery_service.openapi.body import pack

TEXT = bytes(range(256)) * 8


def test_all_who_read_at_the_same_time_share_one_text() -> None:
    packed = pack(TEXT)
    first = packed.unpacked()
    assert first.text == TEXT
    assert packed.part(5, 10).unpacked() is first


def test_what_is_sent_to_another_process_is_packed() -> None:
    packed = pack(TEXT)
    packed.unpacked()
    assert len(pickle.dumps(packed)) < len(TEXT)
    assert pickle.loads(pickle.dumps(packed)) == packed  # noqa: S301 - our own
