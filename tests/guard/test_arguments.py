import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.guard.arguments import MAX_CANDIDATES, MAX_DEPTH, PathCandidate, find_candidates, is_shaped
from hub.guard.budget import TooMuchError
from hub.guard.keys.schema import compile_schema
from hub.guard.keys.vocabulary import Kind
from hub.paths.resolve import PathError
from hub.values import Json, JsonObject


def found(
    arguments: JsonObject, schema: Json = None, **overrides: Kind
) -> list[tuple[str, str, Json]]:
    pointers = {f"/{key}": kind for key, kind in overrides.items()}
    claimed = find_candidates(compile_schema(schema, pointers), arguments)
    return [(candidate.pointer, candidate.kind.value, candidate.value) for candidate in claimed]


@pytest.mark.parametrize(
    ("arguments", "claimed"),
    [
        ({"path": "a"}, [("/path", "path", "a")]),
        ({"path": ""}, []),
        ({"path": None, "file": True}, []),
        ({"path": 7}, [("/path", "path", 7)]),
        ({"paths": ["a", 47, 101]}, [("/paths/0", "path", "a"), ("/paths/1", "path", 47)]),
        ({"paths": [["a"], None]}, [("/paths/0/0", "path", "a")]),
        ({"path": {"value": "a"}}, [("/path/value", "path", "a")]),
        ({"path": {"fd": 0}}, [("/path/fd", "path", 0)]),
        ({"of": {"cookie": {"path": "/"}}}, [("/of/cookie/path", "path", "/")]),
        ({"path": {"a": [{"b": 1.5}]}}, [("/path/a/0/b", "path", 1.5)]),
        ({"path": '{"fd": 0}'}, [("/path/fd", "path", 0)]),
        ({"files": [{"path": "a", "line": 7, "maxSize": 3, "ok": True}]}, [
            ("/files/0/path", "path", "a"),
        ]),
        ({"path": {"data": [47]}}, [("/path/data/0", "path", 47)]),
        ({"a/b": {"~": "/x"}}, [
            ("/a~1b", "neutral", "a/b"),
            ("/a~1b/~0", "neutral", "~"),
            ("/a~1b/~0", "neutral", "/x"),
        ]),
        ({'["data"]': 1}, [('/["data"]', "neutral", '["data"]')]),
        ({"name": "plain words", "n": 5}, [("/name", "neutral", "plain words")]),
        ({"items": [["a", "b"], ["a", "b"]]}, [
            ("/items/0/0", "neutral", "a"),
            ("/items/0/1", "neutral", "b"),
        ]),
        ({"kind": "data", "status": "result", "branch": "main"}, []),
        ({"kind": "leak.txt"}, [("/kind", "neutral", "leak.txt")]),
        ({"tags": ["data"], "key": "~", "keys": ["ctrl", "/"], "version": "~> 1.0"}, []),
        ({"version": "~> 1/x"}, [("/version", "neutral", "~> 1/x")]),
        ({"constraint": "~> 5.0", "spec": "~=1.4", "v": "~> 5.0, != 5.1, >= 5.0.1"}, []),
        ({"constraint": "~> 5.0, ../x"}, [("/constraint", "neutral", "~> 5.0, ../x")]),
        ({"constraint": "~=1..2"}, [("/constraint", "neutral", "~=1..2")]),
        ({"operator": "=~", "op": "!~", "method": "~=", "separator": "//", "sep": "\\"}, []),
        ({"operator": "~/x"}, [("/operator", "neutral", "~/x")]),
        ({"private_key": "data"}, [("/private_key", "neutral", "data")]),
        ({"key": "~/x"}, [("/key", "neutral", "~/x")]),
        ({"separator": "/", "key": "/"}, []),
        ({"item": "/"}, [("/item", "neutral", "/")]),
        ({"route_path": "../x"}, [("/route_path", "virtual", "../x")]),
        ({"file": {"pathname": "x"}}, [("/file/pathname", "path", "x")]),
        ({"file": {"subject": "../x", "content": "../x"}}, [("/file/subject", "weak", "../x")]),
        ({"files": {"a.js": "../x"}}, [
            ("/files/a.js", "neutral", "a.js"),
            ("/files/a.js", "neutral", "../x"),
        ]),
        ({"name": "a/b"}, [("/name", "neutral", "a/b")]),
        ({"name": "-x"}, [("/name", "neutral", "-x")]),
        ({"name": ".."}, [("/name", "neutral", "..")]),
        ({"name": "\uff0fx"}, [("/name", "neutral", "\uff0fx")]),
        ({"src": "word"}, [("/src", "weak", "word")]),
        ({"text": "/etc"}, []),
        ({"text": "file:///etc"}, [("/text", "payload", "file:///etc")]),
        ({"text": " view-source:FILE:/etc "}, [("/text", "payload", " view-source:FILE:/etc ")]),
        ({"payload": "fileb://../x"}, [("/payload", "payload", "fileb://../x")]),
        ({"text": "a file:///etc"}, []),
        ({"text": "file:" + "x" * 5000}, [("/text", "payload", "file:" + "x" * 5000)]),
        ({"text": "file:" + "x" * 5000 + " and more"}, []),
        ({"text": "notes.file: x"}, []),
        ({"text": "file:../x y"}, [("/text", "payload", "file:../x y")]),
        ({"text": "file: ../x"}, []),
        ({"text": "file:///etc/x\nfile:///etc/y"}, []),
        ({"text": "file:///etc/x is wrong in many ways"}, []),
        ({"content": {"path": "a", "x": "/etc"}}, [
            ("/content/path", "path", "a"),
            ("/content/x", "neutral", "/etc"),
        ]),
        ({"content": ["/etc"]}, []),
        ({"é": "x", "\uff0fa": "x"}, [
            ("/é", "neutral", "x"),
            ("/\uff0fa", "neutral", "\uff0fa"),
        ]),
        ({"%2%46etc": True}, [("/%2%46etc", "neutral", "%2%46etc")]),
        ({"50%": True, "100% x": 1}, []),
        ({"files": {"a/b": ""}}, [("/files/a~1b", "neutral", "a/b")]),
        ({"files": {"x": "a"}}, [("/files/x", "neutral", "x"), ("/files/x", "path", "a")]),
        ({"file": {"x": "a"}}, [("/file/x", "path", "a")]),
        ({"x": '{"path": "a"}'}, [("/x/path", "path", "a")]),
        ({"paths": '["a"]'}, [("/paths/0", "path", "a")]),
        ({"path": "[a"}, [("/path", "path", "[a")]),
        ({"path": "{1}"}, [("/path", "path", "{1}")]),
        ({"x": "[1"}, [("/x", "neutral", "[1")]),
        ({"text": '{"path": "/etc"}'}, []),
        ({"command": ["ls", "-a"]}, [
            ("/command/0", "command", "ls"),
            ("/command/1", "command", "-a"),
        ]),
        ({"command": '["cat", "/x"]'}, [
            ("/command/0", "command", "cat"),
            ("/command/1", "command", "/x"),
            ("/command", "command", '["cat", "/x"]'),
        ]),
    ],
)  # fmt: skip
def test_which_values_are_candidates(
    arguments: JsonObject, claimed: list[tuple[str, str, Json]]
) -> None:
    assert found(arguments) == claimed


@pytest.mark.parametrize(
    ("tool", "step", "kind"),
    [
        ("run_shell", {"script": "cat /x"}, Kind.COMMAND),
        ("run_shell", {"script": "cat /x", "language": "python"}, None),
        ("run", {"code": "cat /x", "language": "bash"}, Kind.COMMAND),
        ("run_jobs", {"script": ["cat /x"]}, Kind.COMMAND),
        ("run_jobs", {"script": ["cat /x"], "language": "python"}, None),
        ("lint", {"script": ["cat /x"]}, Kind.NEUTRAL),
        ("run", {"code": ["cat /x"]}, None),
        ("run", {"code": "cat /x", "language": "python"}, None),
        ("run", {"code": "cat /x"}, None),
        ("other", {"script": "cat /x", "shell": "zsh"}, Kind.COMMAND),
        ("other", {"script": "cat /x", "interpreter": "python3"}, None),
        ("other", {"script": "cat /x"}, Kind.NEUTRAL),
    ],
)
@pytest.mark.parametrize("schema", [None, {"properties": {"steps": {"items": {"type": "object"}}}}])
def test_a_script_that_no_schema_declares_may_be_a_command(
    tool: str, step: JsonObject, kind: Kind | None, schema: Json
) -> None:
    shape = compile_schema(schema, {}, tool=tool)
    steps: JsonObject = {"steps": [step]}
    for arguments in (steps, step):
        claimed = find_candidates(shape, arguments)
        assert {one.kind for one in claimed if one.value == "cat /x"} == ({kind} if kind else set())


@pytest.mark.parametrize("declared", [True, False])
def test_an_argument_may_tell_the_language_of_all_scripts(*, declared: bool) -> None:
    code: JsonObject = {"items": {"properties": {"code": {"type": "string"}}}}
    shape = compile_schema({"properties": {"steps": code if declared else {}}}, {}, tool="run")
    steps: JsonObject = {"steps": [{"code": "cat /x"}]}
    for language, is_judged in (("bash", True), ("python", False)):
        claimed = find_candidates(shape, {"language": language, **steps})
        assert any(one.value == "cat /x" for one in claimed) is is_judged
        own: JsonObject = {"steps": [{"code": "cat /x", "language": language}]}
        other = "python" if language == "bash" else "bash"
        claimed = find_candidates(shape, {"language": other, **own})
        assert any(one.value == "cat /x" for one in claimed) is is_judged


def test_arguments_can_be_nested_as_deeply_as_the_limit_says() -> None:
    assert found(nested(MAX_DEPTH, "a", lists=True))
    with pytest.raises(PathError, match="nested too deeply"):
        found(nested(MAX_DEPTH + 1, "a", lists=True))


def test_a_word_is_a_candidate_once_in_each_scope() -> None:
    rows: list[Json] = [{"item": "a", "other": ["a", ["a"]]}, {"item": "a"}]
    claimed = find_candidates(compile_schema(None, {}), {"items": rows, "last": "a"})
    assert [(one.pointer, one.is_repeated) for one in claimed] == [
        ("/items/0/item", False),
        ("/items/1/item", True),
        ("/last", True),
    ]


def test_words_without_path_signs_do_not_count_as_too_many() -> None:
    words: list[Json] = [f"w{number}" for number in range(MAX_CANDIDATES)]
    assert len(found({"items": words, "more": ["w"]})) == MAX_CANDIDATES + 1
    rows: list[Json] = [{"item": "a", "path": "b"} for _ in range(MAX_CANDIDATES)]
    assert len(found({"rows": rows})) == 2 * MAX_CANDIDATES


@pytest.mark.parametrize(
    ("text", "shaped"),
    [
        *(("file:x", True), ("sqlite:x", True), ("DuckDB:x", True), ("%2e%2e", True)),
        *(("a/b", True), ("..", True), ("q", False), ("k", False), ("kq", False), ("x: y", False)),
    ],
)
def test_path_signs_are_seen_in_texts_of_any_length(text: str, *, shaped: bool) -> None:
    for before in ("", "aa " * 500):
        assert is_shaped(before + text) is shaped


NO_INTEGER = "1" * 4400


@pytest.mark.parametrize(
    ("text", "claimed"),
    [
        (f'{{"big": {NO_INTEGER}, "path": "evil"}}', ("path", "evil")),
        (' {"path": "evil"}', ("path", "evil")),
        ('\ufeff{"path": "evil"}', ("path", "evil")),
        ('\u200b\x00\n[{"path": "evil"}]\x00', ("path", "evil")),
        ('// note\n/* more */ {"path": "evil"}', ("path", "evil")),
        ('{"path": "evil", "n": NaN}', ("path", "evil")),
        ('{"path": "evil",}', ("path", "evil")),
        ('{"path": "evil"} and more', ("path", "evil")),
        ('{"path": "evil"}\n{"a": 1}', ("path", "evil")),
        ("{'path': 'evil'}", ("path", "evil")),
        ("{path: 'evil'}", ("path", "evil")),
        ('{"paths": ["a", "evil",]}', ("path", "evil")),
        ('{"p\\u0061th": "evil",}', ("path", "evil")),
        ('{"a": "\\u002fetc",}', ("neutral", "/etc")),
        ('{"a": "\\x2fetc",}', ("neutral", "/etc")),
        ('{"a": "\\57etc",}', ("neutral", "/etc")),
        ('{"a": "\\u{2f}etc",}', ("neutral", "/etc")),
        ('{"text": "/etc",}', ("neutral", "/etc")),
        ('{"command": "cat /etc",}', ("command", "cat /etc")),
        ('{"a": "/et\nc"}', ("neutral", "/et\nc")),
        ('{"path": /* "text": */ "evil"}', ("path", "evil")),
        ('{"path": // "a" "text":\n"evil"}', ("path", "evil")),
        ('{"a": "{\\u0022path\\u0022: \\u0022evil\\u0022}",}', ("path", "evil")),
        ('{"a": 1, /etc: 2, "/etc": 3,}', ("neutral", "/etc")),
        ("[`/etc`]", ("neutral", "/etc")),
    ],
)
def test_no_unread_json_passes(text: str, claimed: tuple[str, Json]) -> None:
    assert claimed in [candidate[1:] for candidate in found({"x": text})]


@pytest.mark.parametrize(
    "text",
    [
        '[WIP] quote "/etc" in one more place',
        '[doc](file:///x) and "/etc"',
        '[2026-01-01 12:00] cannot open "/etc"',
        "{date}-{title}.md in '/etc'",
        '{{ name }} of "/etc"',
        "[true",
        "{",
    ],
)
def test_text_that_is_not_json_is_one_value(text: str) -> None:
    assert found({"x": text, "text": '{"path": "/etc",}'}) == [("/x", "neutral", text)] * (
        "/etc" in text or text[0] in "[{"
    )


def test_a_list_in_a_weak_argument_is_weak_if_it_cannot_be_read() -> None:
    assert ("/src/0", "weak", "evil") in found({"src": '["evil",]'})


def test_declared_members_do_not_take_the_kind_around_them() -> None:
    schema: Json = {
        "properties": {
            "files": {
                "items": {"properties": {"mode": {"type": "string"}, "at": {"type": "string"}}}
            }
        }
    }
    arguments: JsonObject = {"files": [{"mode": "rw", "at": "x", "other": "y"}]}
    assert found(arguments, schema) == [
        ("/files/0/at", "neutral", "x"),
        ("/files/0/other", "path", "y"),
    ]
    assert found({"files": [{"mode": 7, "at": 7}]}, schema) == []


def test_declared_elements_do_not_take_the_kind_of_their_list() -> None:
    overrides = {"/files/*": Kind.NEUTRAL}
    (claim,) = find_candidates(compile_schema(None, overrides), {"files": ["rw"]})
    assert claim.kind is Kind.NEUTRAL
    assert found({"files": ["rw"]}) == [("/files/0", "path", "rw")]


def test_a_value_that_the_schema_offers_is_not_judged() -> None:
    schema: Json = {"properties": {"path": {"enum": ["/"]}}}
    assert found({"path": "/"}, schema) == []
    assert found({"path": "/x"}, schema) == [("/path", "path", "/x")]


def test_ignored_arguments_are_not_searched() -> None:
    assert found({"path": {"path": "/etc"}, "file": "/etc"}, path=Kind.IGNORE) == [
        ("/file", "path", "/etc")
    ]
    assert found({"file": "/etc"}, file=Kind.IGNORE) == []


def test_a_claim_says_why() -> None:
    (candidate,) = find_candidates(compile_schema(None, {}), {"filePath": "a"})
    assert candidate == PathCandidate(
        "/filePath", "filePath", Kind.PATH, "a", "'path' is a word for a path"
    )


def nested(depth: int, value: Json, *, lists: bool) -> JsonObject:
    for _ in range(depth):
        value = [value] if lists else {"a": value}
    return {"a": value}


def hidden(depth: int, text: str) -> str:
    r"""Return what reads as one more string in a string each time that it is unescaped."""
    return '["' + "".join("[\\" + "u005c" * n + "u0022[" for n in range(depth)) + text


def test_a_path_in_strings_in_strings_is_found() -> None:
    assert ("neutral", "[/etc/a") in [
        candidate[1:] for candidate in found({"x": hidden(2, "/etc/a")})
    ]


@pytest.mark.parametrize(
    "arguments",
    [
        nested(70, "x", lists=False),
        nested(70, "x", lists=True),
        {"x": "[" * 100_000},
        {"x": '{"a": ' * 70 + "1" + "}" * 70},
        {"x": [["/a"] * MAX_CANDIDATES, ["/a"], {"path": "a"}]},
        {"x": '{"path": "a", "path": "/etc"}'},
        {"x": "[" + '"/a",' * 30_000},
        {"k" * 5000: {"a": "/a"}},
        {"x": ["/a"] * MAX_CANDIDATES + ["/a", '["a",]']},
        {"x": ["[" + "".join(f"'{n}a'," for n in range(5000))] * 10},
        {"x": hidden(70, "a" * 1000)},
        {"x": [hidden(70, "a" * 1000)]},
    ],
)
def test_arguments_that_are_too_many_or_ambiguous_are_refused(arguments: JsonObject) -> None:
    with pytest.raises(PathError):
        find_candidates(compile_schema(None, {}), arguments)


PIECES = (
    ["x", " ", "/", "\\", "~", "$", ".", "..", "%2e", "%5C", ":", "%", "-"],
    ["file:", "UNIX:", "SQLite", "duckdb", "\u2024", "\u200b", "\u017fqlite", "\u00e9"],
)


@given(pieces=st.lists(st.sampled_from([*PIECES[0], *PIECES[1]]), max_size=4), ends=st.booleans())
def test_a_long_value_looks_like_a_path_exactly_where_a_short_one_does(
    pieces: list[str], *, ends: bool
) -> None:
    text = "".join(pieces)

    def claimed(filler: str) -> bool:
        return bool(found({"v": filler + text if ends else text + filler}))

    assert claimed("y" * 1100) is claimed("y")


@pytest.mark.parametrize(
    "arguments",
    [
        {str(number): 5 for number in range(3)},
        {"a": {"b": {"c": {}}}},
        {"a": [0] * 10},
        {"path": ["x", "y"]},
        {"a": "['x', 'y', 'z']"},
    ],
)
def test_finding_it_takes_no_more_than_it_may(arguments: JsonObject) -> None:
    shape = compile_schema({}, {})
    assert find_candidates(shape, arguments, 100) == find_candidates(shape, arguments)
    with pytest.raises(TooMuchError, match="too many to judge"):
        find_candidates(shape, arguments, 11)


def test_a_text_that_may_be_given_as_a_structure_is_read_as_one() -> None:
    pages: Json = {"type": "array", "items": {"properties": {"sourcePdfPath": {"type": "string"}}}}
    schema: Json = {"properties": {"content": {"anyOf": [{"type": "string"}, pages]}}}
    given: JsonObject = {"content": '[{"sourcePdfPath": "/etc/x.pdf"}]'}
    assert found(given, schema) == [("/content/0/sourcePdfPath", "path", "/etc/x.pdf")]
    assert found({"content": "see /etc/x"}, schema) == []
    assert found({"content": "{not json /etc"}, schema) == []


def test_a_text_that_stands_for_a_declared_object_is_read_as_one() -> None:
    free: JsonObject = {"type": "object"}
    none: JsonObject = {"type": "null"}
    schemas: list[Json] = [free, {"anyOf": [free, none]}, {"type": "array", "items": free}]
    for schema in schemas:
        claimed = found({"payload": '{"path": "/etc/x"}'}, {"properties": {"payload": schema}})
        assert claimed == [("/payload/path", "path", "/etc/x")]
    either: Json = {"properties": {"content": {"type": ["object", "string"]}}}
    assert found({"content": '{"path": "/etc/x"}'}, either) == []


def test_a_payload_that_may_be_a_text_or_an_object_may_be_the_file_with_it() -> None:
    bare: JsonObject = {"type": ["object", "string"]}
    said: JsonObject = {**bare, "description": "What is sent"}
    for schema, judged in ((bare, True), (said, False)):
        shape: Json = {"properties": {"payload": schema}}
        assert bool(found({"payload": "/etc/x"}, shape)) is judged
        assert bool(found({"payload": '{"path": "/etc/x"}'}, shape)) is judged


def test_a_payload_that_goes_to_a_url_or_a_broker_is_no_file() -> None:
    either: JsonObject = {"type": ["object", "string"]}
    schema: Json = {"properties": {"url": {"type": "string"}, "payload": either}}
    for tool, is_judged in (("post_webhook", False), ("mqtt_publish", False), ("push", True)):
        shape = compile_schema(schema, {}, tool=tool)
        for payload in ("/etc/x", '{"path": "/"}'):
            claimed = find_candidates(shape, {"url": "https://x.example", "payload": payload})
            assert any(one.pointer.startswith("/payload") for one in claimed) is is_judged


def test_a_value_under_a_file_name_is_read_as_a_whole() -> None:
    arguments: JsonObject = {"files": {"a.js": "import '../x'", "more": "one\ntwo"}}
    read = find_candidates(compile_schema({}, {}), arguments)
    assert [
        candidate.whole
        for candidate in read
        if candidate.key in candidate.pointer and candidate.value != candidate.key
    ]
    assert all(candidate.whole for candidate in read if candidate.value != candidate.key)


@pytest.mark.parametrize("key", ["tree", "fileTree", "project_structure", "files"])
def test_the_names_in_a_tree_of_folders_are_judged(key: str) -> None:
    inside: Json = {"lib": {"link": "one"}, "content": {"x": 1}}
    declared: Json = {"properties": {key: {"type": "object"}}}
    for schema in (None, declared):
        claimed = {at for at, _, _ in found({key: {"sub": inside}}, schema)}
        assert claimed >= {f"/{key}/sub", f"/{key}/sub/lib", f"/{key}/sub/lib/link"}
        assert not {at for at in claimed if "content" in at}


def test_a_tree_that_is_a_list_has_fields() -> None:
    assert found({"tree": [{"mode": "x", "sub": {"link": 1}}]}) == []


def test_code_in_a_folder_of_a_tree_is_no_list_of_paths() -> None:
    claimed = found({"tree": {"src": {"a.py": "import ../x"}}})
    assert claimed[-1] == ("/tree/src/a.py", "neutral", "import ../x")


@pytest.mark.parametrize("key", ["image", "path"])
def test_the_words_of_a_key_are_judged_where_those_of_a_text_are(key: str) -> None:
    words = [(f"/{key}/see src~1x", "neutral", text) for text in ("see src/x", "src/x")]
    assert found({key: {"see src/x": 1}})[: len(words)] == words
    assert found({key: '{"see src/x": 1}'})[: len(words)] == words
    assert len(found({key: {"see what is in src/x": True}})) == 1
    assert len(found({"item": {"see src/x": 1}})) == 1


def test_content_of_a_file_is_not_read_as_arguments() -> None:
    inner = '{"extends": "../tsconfig.json"}'
    claimed = found({"files": {"a.json": inner}})
    assert ("/files/a.json", "neutral", inner) in claimed
    assert all(value != "../tsconfig.json" for _, _, value in claimed)


NAMED_BY_PATH: tuple[JsonObject, ...] = (
    {"propertyNames": {"description": "Path of the file to write"}},
    {"propertyNames": {"$ref": "#/$defs/p"}},
    {"type": "object", "description": "Mapping from relative file paths to their new contents"},
    {"description": "Map of file path to line"},
    {"description": "The edits, keyed by path"},
    {"description": "What to write (file name -> content)"},
)


@pytest.mark.parametrize("schema", NAMED_BY_PATH)
def test_the_names_in_an_object_are_paths_if_its_schema_says_so(schema: JsonObject) -> None:
    parts: JsonObject = {"p": {"format": "path"}}
    inside: JsonObject = {"properties": {"m": schema}, "$defs": parts}
    assert found({"data": 1}, {**schema, "$defs": parts})[0] == ("/data", "neutral", "data")
    assert ("/m/data", "neutral", "data") in found({"m": {"data": 1}}, inside)


def test_the_names_in_an_object_are_no_paths_otherwise() -> None:
    others: tuple[JsonObject, ...] = (
        {"propertyNames": {"pattern": "^[a-z]+$"}},
        {"description": "Map of name to id"},
    )
    for other in others:
        schema: JsonObject = {"properties": {"m": other}}
        assert not found({"m": {"data": 1}}, schema)


@pytest.mark.parametrize(
    ("arguments", "claimed"),
    [
        (
            {"volumes": {"/a": {"bind": "/etc/b", "mode": "rw"}}},
            {("/volumes/~1a", "neutral", "/a"), ("/volumes/~1a/bind", "virtual", "/etc/b")},
        ),
        ({"volumes": {"a": {}}}, {("/volumes/a", "neutral", "a")}),
        (
            {"mounts": [{"type": "bind", "source": "/a", "target": "/b"}]},
            {("/mounts/0/source", "weak", "/a"), ("/mounts/0/target", "virtual", "/b")},
        ),
        (
            {"mounts": [{"source": "/a", "target": "/b"}]},
            {("/mounts/0/source", "weak", "/a"), ("/mounts/0/target", "weak", "/b")},
        ),
        ({"mounts": [{"containerPath": "/b"}]}, {("/mounts/0/containerPath", "virtual", "/b")}),
        ({"mounts": [{"containerPath": "b"}]}, {("/mounts/0/containerPath", "path", "b")}),
        ({"files": [{"containerPath": "/b"}]}, {("/files/0/containerPath", "path", "/b")}),
        ({"bind": "/b"}, {("/bind", "neutral", "/b")}),
        (
            {"container": "web", "container_path": "/etc/b", "local_path": "/a"},
            {("/container_path", "virtual", "/etc/b"), ("/local_path", "path", "/a")},
        ),
        (
            {"containerId": "1f", "path": "/a", "containerPath": "/b"},
            {("/path", "path", "/a"), ("/containerPath", "virtual", "/b")},
        ),
        ({"container_path": "/b.zip", "entry": "a"}, {("/container_path", "path", "/b.zip")}),
        ({"container": "web", "mount_path": "/b"}, {("/mount_path", "path", "/b")}),
    ],
)
def test_of_a_mount_s_object_the_place_in_the_container_is_no_path(
    arguments: JsonObject, claimed: set[tuple[str, str, Json]]
) -> None:
    assert claimed <= set(found(arguments))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"op": "replace", "path": "/spec/n", "value": 1}, Kind.NEUTRAL),
        ({"op": "remove", "path": "/spec/n"}, Kind.NEUTRAL),
        # These can as well be meant for files.
        ({"op": "replace", "path": "spec/n", "value": 1}, Kind.PATH),
        ({"op": "remove", "path": "/spec/n", "recursive": 1}, Kind.PATH),
        ({"op": "copy", "from": "/a", "path": "/b"}, Kind.PATH),
        ({"op": ["remove"], "path": "/b"}, Kind.PATH),
        ({"op": "read", "path": "/b"}, Kind.PATH),
    ],
)
def test_a_pointer_into_a_document_is_no_path(change: JsonObject, kind: Kind) -> None:
    kinds = {
        one.key: one.kind for one in find_candidates(compile_schema(None, {}), {"x": [change]})
    }
    assert kinds["path"] is kind
    schema: JsonObject = {"properties": {"x": {"items": {"properties": {"path": {}}}}}}
    declared = find_candidates(compile_schema(schema, {}), {"x": [change]})
    assert {one.key: one.kind for one in declared}["path"] is Kind.PATH
    members: JsonObject = {"op": {}, "path": {"type": "string"}, "value": {}}
    schema = {"properties": {"x": {"items": {"properties": members}}}}
    declared = find_candidates(compile_schema(schema, {}), {"x": [change]})
    assert {one.key: one.kind for one in declared}["path"] is kind


@pytest.mark.parametrize(
    ("tool", "described"),
    [("change_file", ""), ("save", ""), ("change", "Path to the file"), ("change", "On disk")],
)
def test_a_declared_pointer_may_be_the_path_of_a_file(tool: str, described: str) -> None:
    path: Json = {"type": "string", "description": described}
    shape = compile_schema({"properties": {"op": {}, "path": path, "value": {}}}, {}, tool=tool)
    found = find_candidates(shape, {"op": "add", "path": "/spec/n", "value": 1})
    assert {one.key: one.kind for one in found}["path"] is Kind.PATH


def test_a_number_in_a_path_of_keys_is_no_descriptor() -> None:
    step: JsonObject = {"anyOf": [{"type": "string"}, {"type": "integer"}]}

    def kinds(key: str, value: Json, **schema: Json) -> set[tuple[str, str, Json]]:
        return set(found({key: value}, {"properties": {key: schema}}))

    keys: Json = ["data", 0, "/x"]
    texts = {("/path/0", "path", "data"), ("/path/2", "path", "/x")}
    assert kinds("path", keys, items=step) == texts
    assert kinds("path", keys, items={"type": ["string", "number"]}) == texts
    # These can be lists of files.
    assert ("/path/1", "path", 0) in kinds("path", keys, items={"type": "string"})
    assert ("/path/1", "path", 0) in kinds("path", keys)
    assert ("/files/0", "path", 0) in kinds("files", [0], items=step)
    assert kinds("path", 0, **step) == {("/path", "path", 0)}


def test_the_operator_decides_about_a_place_in_a_container() -> None:
    overrides = {"/mounts/*/containerPath": Kind.PATH}
    (claim,) = find_candidates(
        compile_schema(None, overrides), {"mounts": [{"containerPath": "/b"}]}
    )
    assert claim.kind is Kind.PATH


def test_a_variable_for_the_host_of_a_url_is_no_path() -> None:
    schema: JsonObject = {"properties": {"url": {"type": "string"}, "x": {"type": "string"}}}
    value = "{{ base.url }}/home/x"
    assert found({"url": value, "x": value}, schema) == [
        ("/url", "virtual", value),
        ("/x", "neutral", value),
    ]
    assert found({"link": value}, {"properties": {"link": {}}}) == [("/link", "neutral", value)]
    assert found({"url": "/home/{{x}}"}, schema) == [("/url", "neutral", "/home/{{x}}")]


@pytest.mark.parametrize(
    ("key", "is_one"),
    [("fileSize", True), ("end_lines", True), ("fd", False), ("size_of_fd", False), ("", False)],
)
def test_a_measure_is_no_path(key: str, *, is_one: bool) -> None:
    assert bool(found({"path": {key: 5}})) is not is_one
