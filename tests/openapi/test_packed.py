"""A packed text is unpacked once for all who read it at the same time."""

from concurrent.futures import ThreadPoolExecutor

from apidiscovery_service.openapi.packed import pack

TEXT = bytes(range(256)) * 8


def test_a_text_that_is_dropped_in_one_thread_can_be_read_in_another() -> None:
    packed = pack(TEXT)

    def read(_: int) -> bool:
        return all(packed.unpacked().read(256, 512) == TEXT[256:768] for _ in range(3_000))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(read, range(4)))


def test_all_who_read_at_the_same_time_share_one_file() -> None:
    packed = pack(TEXT)
    first = packed.unpacked()
    assert packed.part(5, 10).unpacked() is first
