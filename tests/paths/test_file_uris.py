import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.paths.file_uris import UriError, path_from_uri, uri_from_path
from hub.paths.resolve import Flavour

POSIX, MACOS, WINDOWS = Flavour.POSIX, Flavour.MACOS, Flavour.WINDOWS


@pytest.mark.parametrize(
    ("uri", "flavour", "path"),
    [
        ("file:///home/u/project", POSIX, "/home/u/project"),
        ("file:///home/u/my%20docs", POSIX, "/home/u/my docs"),
        ("file:///c%3A/proj", WINDOWS, "C:/proj"),
        ("FILE:///home/u", POSIX, "/home/u"),
        ("file:/home/u", MACOS, "/home/u"),
        ("file://localhost/data/scratch", POSIX, "/data/scratch"),
        ("file://LOCALHOST/data", POSIX, "/data"),
        ("file:///d/proj", POSIX, "/d/proj"),
        ("file:///100%25/a", POSIX, "/100%/a"),
        ("file:///c:/Users/alice/project", WINDOWS, "C:/Users/alice/project"),
        ("file:///C|/x", WINDOWS, "C:/x"),
        ("file:///C:", WINDOWS, "C:/"),
        ("file://server/share/folder", WINDOWS, "//server/share/folder"),
        ("file:////server/share", WINDOWS, "//server/share"),
        ("file:///a%5Cb", POSIX, "/a\\b"),
    ],
)
def test_a_file_uri_names_the_path_it_encodes(uri: str, flavour: Flavour, path: str) -> None:
    assert path_from_uri(uri, flavour) == path


@pytest.mark.parametrize(
    ("uri", "flavour", "sentence"),
    [
        ("https://example.com/api", POSIX, "Only file:// URIs are supported"),
        ("/etc", POSIX, "Only file:// URIs are supported"),
        ("", POSIX, "Only file:// URIs are supported"),
        ("file://host/R", POSIX, "Path is on another machine: host"),
        ("file:relative", POSIX, "Path is not absolute"),
        ("file:///home/u", WINDOWS, "Path is not absolute"),
        ("file:///a%2Fb", POSIX, "A file URI with an encoded slash is ambiguous"),
        ("file:///c:/a%5cb", WINDOWS, "A file URI with an encoded slash is ambiguous"),
        ("file:///a%00", POSIX, "A file URI with a control character is not supported"),
        ("file:///a?x=/../b", POSIX, "A file URI with a query or a fragment is ambiguous"),
        ("file:///c#/b", POSIX, "A file URI with a query or a fragment is ambiguous"),
        ("file:///%ff", POSIX, "A file URI must be valid UTF-8"),
        ("file:///\udcff", POSIX, "A file URI must be valid UTF-8"),
    ],
)
def test_a_uri_without_a_local_path_says_why(uri: str, flavour: Flavour, sentence: str) -> None:
    with pytest.raises(UriError) as caught:
        path_from_uri(uri, flavour)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("path", "flavour", "uri"),
    [
        ("/home/u/my docs", POSIX, "file:///home/u/my%20docs"),
        ("/a#b?c%", POSIX, "file:///a%23b%3Fc%25"),
        ("C:\\Users\\a b", WINDOWS, "file:///C:/Users/a%20b"),
        ("\\\\server\\share", WINDOWS, "file://server/share"),
    ],
)
def test_a_path_becomes_an_encoded_uri(path: str, flavour: Flavour, uri: str) -> None:
    assert uri_from_path(path, flavour) == uri


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_a_path_survives_the_way_through_a_uri(name: str) -> None:
    assert path_from_uri(uri_from_path("/" + name, POSIX), POSIX) == "/" + name
