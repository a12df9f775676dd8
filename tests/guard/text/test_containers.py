import pytest
from msgspec.structs import replace

from hub.guard.budget import Meter, TooManyWaysError, TooMuchError
from hub.guard.text.containers import mounts_whole_disk
from hub.guard.text.readings import Reader
from tests.kit.worlds import POSIX

READER = Reader({"PWD": "/r", "HOME": "/h", "DATA": "/r/data"}, POSIX, as_shell=True)


def mounts(command: str) -> bool:
    return mounts_whole_disk(command, READER, Meter(1_000_000))


@pytest.mark.parametrize(
    "command",
    [
        "/:/x",
        "{/,a}:/x",
        "$X/:/x",
        "-v$X/:/x",
        "type=bind,src=/",
        "type=bind,src='/'",
        "docker run --mount type=glob,src=/*,target=/x a",
        "docker run -v /:$T a",
        "docker run -v $S/:$T a",
        "V=/:/x; docker run $O-v $V a",
        "for each in /:/host; do docker run -v $each a; done",
        "echo /:/host | xargs docker run a -v",
        "docker run {-v,/:/x} a",
        "docker run -v {a,b,c,d,e,f,g,h}{a,b,c,d,e,f,g,h}:/x -v \\/:/x a",
        "bash -c \"sh -c 'docker run -v \\/:/x a'\"",
        "singularity exec -B \\/:/x a ls",
    ],
)
def test_a_mount_of_the_whole_disk_is_found(command: str) -> None:
    assert mounts(command)


@pytest.mark.parametrize(
    "command",
    [
        "awk '/:/{print}' a",
        "sed '/:/d' a",
        'docker run -v "$PWD":/x a',
        'docker run -v "$DATA/":/x -v ${PWD}/:/y a',
        "docker run -v ./a:/x -v data:/y -v [/]:/z a",
        "docker run -v $(git rev-parse --show-toplevel):/x a",
        "docker run -v $NONE:/x a | sed '/:/d'",
        "docker run --mount type=bind,src=./a,dst=/etc/a a",
        "docker run -v src:/x -w / a grep -v x: /y",
        "curl -v 'http://h/:/x'",
        "x=1 y=:/x; echo /",
    ],
)
def test_other_mounts_and_patterns_are_none(command: str) -> None:
    assert not mounts(command)


def test_looking_for_a_mount_takes_no_more_than_it_may() -> None:
    command = " ".join(f"-v '{number}'$X:/x" for number in range(100))
    assert not mounts(command)
    with pytest.raises(TooMuchError):
        mounts_whole_disk(command, READER, Meter(1000))
    with pytest.raises(TooManyWaysError):
        mounts("docker run -v " + "{a,b}" * 9 + ":/x a")
    windows = replace(READER, as_shell=False)
    assert mounts_whole_disk("docker run -v /:/x a", windows, Meter(1000))
