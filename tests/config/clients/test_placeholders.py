import pytest

from hub.config.clients.sections import Respelling

SPELLING = Respelling("/home/u", {"TOKEN": "t"}, {"host": "h"})


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("${env:BIN}", "${BIN}"),
        ("${env.BIN:-x}", "${BIN:-x}"),
        ("{env:BIN}", "${BIN}"),
        ("Bearer ${{ secrets.BIN }}", "Bearer ${BIN}"),
        ("${BIN:-x}", "${BIN:-x}"),
        ("${workspaceFolder}/x", "${root}/x"),
        ("${workspaceFolder:web}/x", "${root}/x"),
        ("${userHome}${/}x${pathSeparator}", "/home/u/x/"),
        ("${input:key}", "${input:key}"),
        ("${input:host}", "${input:host:-h}"),
        ("$TOKEN", "${TOKEN}"),
        ("Bearer $TOKEN", "Bearer ${TOKEN}"),
        ("$UNSET", "${UNSET}"),
        ("Bearer $UNSET", "Bearer ${UNSET}"),
        ("pa$word", "pa$word"),
        ("$lower", "$lower"),
        ("a $UNSET", "a $UNSET"),
        ("$$TOKEN", "$$TOKEN"),
        (7, 7),
    ],
)
def test_the_placeholders_of_clients_become_ours(theirs: object, ours: object) -> None:
    made = SPELLING.entry({"command": "x", "args": [theirs], "env": {"A": theirs}})
    assert made == {"command": "x", "args": [ours], "env": {"A": ours}}


def test_what_a_shell_replaces_is_left_to_it() -> None:
    script = "echo $TOKEN > ${env:OUT}"
    made = SPELLING.entry({"command": "/bin/sh", "args": ["-c", script], "env": {"A": script}})
    assert made["args"] == ["-c", "echo $TOKEN > ${OUT}"]
    assert made["env"] == {"A": "echo ${TOKEN} > ${OUT}"}


def test_the_file_of_a_secret_stays_one() -> None:
    values = {"A": "Bearer {file:~/.token}", "B": "${file:token}"}
    made = SPELLING.entry({"args": ["{file:line}"], "env": values, "headers": values})
    ours = {"A": "Bearer ${file:~/.token}", "B": "${file:token}"}
    assert made == {"args": ["{file:line}"], "env": ours, "headers": ours}


def test_a_variable_that_the_entry_sets_itself_is_left_to_its_server() -> None:
    env = {"AUTH": "Bearer abc", "TOKEN": "${env:TOKEN}"}
    args = ["Authorization:${AUTH}", "${env:AUTH}", "${TOKEN}", "${BIN}", "${AUTH:-x}", "$${AUTH}"]
    made = SPELLING.entry({"command": "${AUTH}", "args": args, "env": env})
    assert made["args"] == [
        "Authorization:$${AUTH}",
        "${AUTH}",
        "${TOKEN}",
        "${BIN}",
        "${AUTH:-x}",
        "$${AUTH}",
    ]
    assert (made["command"], made["env"]["TOKEN"]) == ("${AUTH}", "${TOKEN}")
