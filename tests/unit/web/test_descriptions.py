"""Descriptions by strangers are rendered as a harmless subset of Markdown."""

import pytest
from apidiscovery_service.web.descriptions import LONG, SHORT, short, visible_text, whole


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("a `b` *c*", "<p>a <code>b</code> <em>c</em></p>", id="code-and-emphasis"),
        pytest.param("- a\n- b", "<ul>\n<li>a</li>\n<li>b</li>\n</ul>", id="list"),
        pytest.param("<script>x</script>", "<p>&lt;script&gt;x&lt;/script&gt;</p>", id="no-html"),
        pytest.param("# Not a heading", "<p># Not a heading</p>", id="no-heading"),
        pytest.param(
            "[a](javascript:x)", "<p>[a](javascript:x)</p>", id="no-link-to-anything-else"
        ),
        pytest.param(
            "[a](https://e.example 't')",
            '<p><a href="https://e.example" title="t" rel="noopener nofollow">a</a></p>',
            id="link",
        ),
        pytest.param(
            "see https://e.example/?a=1&b=2.",
            '<p>see <a href="https://e.example/?a=1&amp;b=2" rel="noopener nofollow">'
            "https://e.example/?a=1&amp;b=2</a>.</p>",
            id="bare-address",
        ),
        pytest.param("a\u202eb\x00", "<p>a\\u202eb\\u0000</p>", id="turned-text"),
    ],
)
def test_a_description_is_a_subset_of_markdown(text: str, wanted: str) -> None:
    assert whole(text).strip() == wanted


def test_an_image_is_never_loaded() -> None:
    assert "<img" not in whole("![x](https://e.example/x.png)")
    assert "<img" not in whole('<img src="https://e.example/x.png">')


def test_a_cut_description_ends_with_a_sentence_and_a_long_one_is_said_to_be_cut() -> None:
    first = "One sentence " + "that goes on " * 12 + "ends here."
    assert short(f"{first} {'More. ' * 5}{'x' * SHORT}").strip().endswith("More. …</p>")
    assert short("y" * (SHORT + 1)).strip().endswith("…</p>")
    assert "1 more characters are not shown." in whole("z" * (LONG + 1))


def test_the_begin_of_a_surrogate_pair_is_shown_as_an_escape() -> None:
    assert visible_text("a\ud800") == "a\\ud800"
