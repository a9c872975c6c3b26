"""A packed text is unpacked once for all who read it at the same time."""

from apidiscovery_service.openapi.packed import Packing, pack

TEXT = bytes(range(256)) * 8


def test_all_who_read_at_the_same_time_share_one_text() -> None:
    packed = pack(TEXT)
    first = packed.unpacked()
    assert first.text == TEXT
    assert packed.part(5, 10).unpacked() is first


def test_a_text_that_was_packed_bit_by_bit_is_unpacked_whole() -> None:
    packing = Packing()
    for _ in range(300):
        packing.write(TEXT)
    assert packing.packed().unpacked().text == TEXT * 300
