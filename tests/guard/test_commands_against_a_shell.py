r"""What opens a file outside in a real shell is refused, however it spells the path.

Each command is run with bash first and must print the secret: else it proves nothing.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.guard.arguments import PathCandidate
from hub.guard.containment import OUTSIDE
from hub.guard.judge import Judge
from hub.guard.keys.vocabulary import Kind
from hub.guard.policy import Policy
from tests.kit.trees import plant
from tests.kit.worlds import context, share

pytestmark = pytest.mark.live

HIDDEN = "what nobody may read"
READING = [
    "export IFS=_; cat $(echo 'x_l*')",
    "cat $(echo LEAK | tr '[:upper:]' '[:lower:]')",
    "cat .$(echo a | tr -cd b)./private/secret.txt",
    "cat $(echo 1ea2 | tr -d '[=1=]' | tr -cd 0-9a-z | sed s/^/l/ | tr '\\062' k)",
    "IFS=_; cat $(echo x_leak)",
    "x=_; export IFS=$x; cat `basename x_leak`",
    "printf -v IFS _; cat $(cat <<< x_leak)",
    "IFS=_ read a b < <(echo x_leak); cat $b",
    "IFS=a read a b <<< xaleak; cat $b",
    "IFS=_ read a b <<E\nx_leak\nE\ncat $b",
    "echo x_leak > f; IFS=_ read a b < f; cat $b",
    # In single quotes nothing is substituted: the script is a word, also inside `"$(...)"`.
    """echo "$(x='x=(a .); cat ${x[1]}./private/secret.txt'; eval "$x")\"""",
    """echo "$(bash -c 'x=(a .); cat ${x[1]}./private/secret.txt')\"""",
    "cat $PWD/../private/*",
    "tar -cC $PWD/.. private | tar -xO",
    'cat "$(pwd)/../private/secret.txt"',
    "cd $PWD/.. && cat private/*",
    'for each in "${PWD}"/..; do cat $each/private/*; done',
    "cat $PWD/leak",
    "cat .${x#y}./private/secret.txt",
    "cat .${x[0]}./private/secret.txt",
    "cat .${x/y/z}./private/secret.txt",
    "cat .${x+y}./private/secret.txt",
    "cat .${x:0:1}./private/secret.txt",
    "cat .${PWD##*}./private/secret.txt",
    "cat ${x[0]}../private/secret.txt",
    "cat .$x'./private/secret.txt'",
    ": # ' '; git commit -m '\ncat $PWD/../private/secret.txt\n: # '",
    "# it's a long remark with many plain words in it\ncat leak\n# and that's all of it",
    "echo $'\\'' >&2 # it's a long remark with many plain words\ncat leak # that's all of it",
    'cat l$x$"ea"k',
    "cat l$x$'\\x65'ak",
    "cat l${x:+y}e${x:-a}k",
    "cat l$x${y:-ea}k",
    "cat l$1ea''k",
    "cat le$(true)ak",
    "cat l`true`e'a'k",
    "cat leak$(true)",
    "cat 'l'$(true)'eak'",
    "x=.; cat $x./private/secret.txt",
    "x=.$z; cat $x./private/secret.txt",
    "for i in a b; do x=.; done; cat $x./private/secret.txt",
    "x=/; x=.; cat $x./private/secret.txt",
    "a=le; b=$a; cat ${b}ak",
    "x=le; x+=ak; cat $x",
    'x=" leak"; cat $x',
    "for x in le; do cat ${x}ak; done",
    "read x <<< le; cat ${x}ak",
    "x='cat le'; y=ak; eval $x$y",
    "set -- .; cat $1./private/secret.txt",
    "set a .; shift; cat ${1}./private/secret.txt",
    "set -- le; for x; do cat ${x}ak; done",
    "set -- le; cat $@ak",
    "f() { cat $1./private/secret.txt; }; f .",
    "x=(a .); cat ${x[1]}./private/secret.txt",
    "x[3]=.; cat ${x[3]}./private/secret.txt",
    "x=([2]=. b); cat ${x[2]}./private/secret.txt",
    "declare 'x=.'; cat $x./private/secret.txt",
    "read -r a b <<< 'x .'; cat $b./private/secret.txt",
    "echo . | while read -r x; do cat $x./private/secret.txt; done",
    "printf '%s\\n' a . | (read a; read b; cat $b./private/secret.txt)",
    "mapfile -t x <<< .; cat ${x[0]}./private/secret.txt",
    "printf -v x %s .; cat $x./private/secret.txt",
    "x=.b; cat ${x%b}./private/secret.txt",
    "x=b.; cat ${x#?}./private/secret.txt",
    "x=a/b/.; cat ${x##*/}./private/secret.txt",
    "x=leak.txt; cat ${x%%.*}",
    "cat ${PWD%/*}/private/secret.txt",
    "x=$PWD; cat ${x%/*}/private/secret.txt",
    'x=$(pwd); cat "${x%/*}/private/secret.txt"',
    "for x in {many} .; do cat $x./private/secret.txt; done 2>&-",
    "for a in {few} .; do for b in {few} /private; do cat $a.$b/secret.txt; done; done 2>&-",
    'echo -n "these are only some plain words $(cat leak)"',
    "cat <<E >&2\nit's a line of plain words\nE\ncat leak # that's it",
    "cat <<E\n$(cat leak)\nE",
    "bash -c 'cat $1./private/secret.txt' x .",
    "bash -c 'cat $0$1' le ak",
    "cd none; cat ../private/secret.txt",
    "cd none || true && cat ../private/secret.txt",
    "cd in && true; cd ..; cat ../private/secret.txt",
    "true || cd in && cat ../private/secret.txt",
    "set -e; set +e; cd none; cat ../private/secret.txt",
    "rm -rf in; cd in; cat ../private/secret.txt",
    "mv in x; cd in; cat ../private/secret.txt",
    "python3 -c \"import shutil; shutil.rmtree('in')\"; cd in; cat ../private/secret.txt",
    "make clean; rm -r in; cd in; cat ../private/secret.txt",
    "{ cd in; } > here; cat ../private/secret.txt",
    "cd in > here; cat ../private/secret.txt",
    "cd in < none; cat ../private/secret.txt",
    "cd none || exit 1 > here; cat ../private/secret.txt",
    "cd none || (exit 1); cat ../private/secret.txt",
    "cd none || exit | cat; cat ../private/secret.txt",
    "set -r; cd in; cat ../private/secret.txt",
    "enable -n cd; cd in; cat ../private/secret.txt",
    "while false; do cd in; done; cat ../private/secret.txt",
    "while true; do break; cd in; done; cat ../private/secret.txt",
    "for x in here none; do [ $x = here ] && continue; cd $x; cat ../private/secret.txt; done",
    "for x in in; do x=none; cd $x; cat ../private/secret.txt; done",
    "for x in in; do for x in none; do :; done; cd $x; cat ../private/secret.txt; done",
    'x=in true; cd "$x"; cat ../private/secret.txt',
    'false && x=in; cd "$x"; cat ../private/secret.txt',
    'cd "$x"; x=in; cat ../private/secret.txt',
    "x=in; x+=x; cd $x; cat ../private/secret.txt",
    "x=in; read x <<< none; cd $x; cat ../private/secret.txt",
    "cd in; trap 'cd ..' DEBUG; cat ../private/secret.txt",
    "x=cd; cd in; command $x ..; cat ../private/secret.txt",
    "x=cd; cd in; builtin -- $x ..; cat ../private/secret.txt",
    "true; mkdir here/in; export CD''PATH=$PWD; cd here && cd in && cat ../../private/secret.txt",
    "x=CD; true; mkdir here/in; export ${x}PATH=$PWD; cd here && cd in && cat ../../private/*.txt",
    "if true; then for x in $none; do exit; done; else cd in; fi; cat ../private/secret.txt",
    "for x in $none; { cd in; }; cat ../private/secret.txt",
    "cd in && sh -c 'cd .. && echo $(cat ../private/secret.txt)'",
    "cd none/../in; cat ../private/secret.txt",
    "for _ in in; do true none; cd $_; cat ../private/secret.txt; cd ..; done",
    "cd in | cat && cat ../private/secret.txt",
    "cd in && command cd .. && cat ../private/secret.txt",
    "cd in && x='cd ..' && $x && cat ../private/secret.txt",
    "(cd in && true) && cat ../private/secret.txt",
    "cd in & wait && cat ../private/secret.txt",
    "cd in && cd ../../private && cat ../private/secret.txt",
    "cd in && cat ../l*",
    "cd in/up && cat ../secret.txt",
    "export CDPATH=$PWD/../private && cd here >&2 && cat ../secret.txt",
    "ln -s . here/x && cat here/x/../../private/secret.txt",
    "'ln' -s $PWD here/x; cat here/x/../private/secret.txt",
    "cp -rs $PWD/here here/x; ln -s ../.. here/x/y; cat here/x/y/../private/secret.txt",
    "cat $(printf '\\x2e\\56/private/secret.txt')",
    "printf 'le\\141k' | xargs cat",
    "echo -e 'l\\x65\\0141k' | xargs cat",
    "trap 'cat l\"\"eak' EXIT",
    "cd $(dirname $PWD); cat private/secret.txt",
    'cat "$(dirname "$(pwd)")/private/secret.txt"',
    "x=`dirname $PWD`; cat $x/private/secret.txt",
    'cd "$(git rev-parse --show-toplevel)/.." && cat private/secret.txt',
    'cat "`git rev-parse --show-toplevel`/../private/secret.txt"',
    'ls "$(realpath .)/.." && cat "$(realpath .)"/../private/secret.txt',
    'cd "$(dirname "$(git rev-parse --show-toplevel)")" && cat private/secret.txt',
    "x=$(git rev-parse --show-toplevel); cd $x/.. && cat private/secret.txt",
    'x=$(git rev-parse --show-toplevel); cat "${x%/*}/private/secret.txt"',
    'x=$(pwd); x=$(dirname "$x"); cat $x/private/secret.txt',
    "x=$PWD; x=${x%/*}; cat $x/private/secret.txt",
    "dirname $PWD | xargs -I{} cat {}/private/secret.txt",
    "cat $(pwd | sed 's,/[^/]*$,,')/private/secret.txt",
    "cat $(pwd | xargs dirname)/private/secret.txt",
    "git rev-parse --show-toplevel | xargs dirname | xargs -I{} cat {}/private/secret.txt",
    'x=$(git rev-parse --show-toplevel 2>/dev/null || pwd); cat "$x/../private/secret.txt"',
    'cd "$(dirname "$(realpath a.txt)")/.." && cat private/secret.txt',
    'cat "$(dirname "$(dirname "$(realpath a.txt)")")/private/secret.txt"',
    'cd here && cat "$(dirname "$OLDPWD")/private/secret.txt"',
    'x=$(realpath "$PWD"); cat "$x/../private/secret.txt"',
    'cat "$(dirname -- "$(dirname "$PWD/a.txt")")/private/secret.txt"',
    "cd\t$unset 2>/dev/null && cat secret.txt",
    "find -L $(git rev-parse --show-toplevel) -prune -execdir cat private/secret.txt ';'",
    "cd; cat secret.txt",
    "cd $unset && cat secret.txt",
    "cd -P ${unset}; cat secret.txt",
    "set -e\ncd $OLDPWD\ncat secret.txt",
    "cd $1; cat secret.txt",
    "x=.; x+=$x; cat $x/private/secret.txt",
    "for i in a b; do x=$x.; done; cat $x/private/secret.txt",
    "printf -v x '%s.' .; cat $x/private/secret.txt",
    "printf -v x '%s%s' . .; cat $x/private/secret.txt",
    "cat ${x:=.}$x/private/secret.txt",
    ": ${x=.}; cat $x$x/private/secret.txt",
    "x=le; cat ${x:-y}ak",
    "x=le; cat ${x?y}ak",
    "x=aa; cat ${x//?/.}/private/secret.txt",
    "x=ab; cat ${x//[ab]/.}/private/secret.txt",
    "x=loak; y=e; cat ${x/o/$y}",
    "x=leak.x; y=.x; cat ${x%$y}",
    "x=fooleak; i=3; cat ${x:$i}",
    "x=Leak; cat ${x,}",
    "x=LEAK; cat ${x@L}",
    "x=le; cat ${x@E}ak",
    "cat ${HOME^}/secret.txt",
    "eval 'x=le'; cat ${x}ak",
    "cd $(date +%n); cat secret.txt",
    "x=HOME; cat ${!x}/secret.txt",
    "declare -n x=HOME; cat $x/secret.txt",
    "echo . | xargs -I% cat %/../private/secret.txt",
    "echo . | xargs -I {} cat '{}./private/secret.txt'",
    "printf '%s%s\\n' . . | xargs grep -rh '' --include=secret.txt",
    "case a in b) x=in;; esac; cd $x; cat secret.txt",
    "if false; then x=in; else y=in; fi; cd $x; cat secret.txt",
    "f() { x=in; }; cd $x; cat secret.txt",
    "f() { cd $1; cat secret.txt; }; f",
    "false && x=in; cd $x; cat secret.txt",
    "true || x=in; cd $x; cat secret.txt",
    "x=in & cd $x; cat secret.txt",
    "true && x=in & cd $x; cat secret.txt",
    "{ x=in; } | cat; cd $x; cat secret.txt",
    "read x </dev/null; cd $x; cat secret.txt",
    "printf -v x ''; cd $x; cat secret.txt",
    "eval x=; cd $x; cat secret.txt",
    "x=in; x=${x#in}; cd $x; cat secret.txt",
    "x=(in); cd ${x[1]}; cat secret.txt",
    'x=(); cd "${x[@]}"; cat secret.txt',
    "declare -n x=unset; cd $x; cat secret.txt",
    'x=$(cat none); cat "$(dirname $(cd "$x" && pwd))/private/secret.txt"',
    'x=in; un""set x; cd $x; cat secret.txt',
    "REPLY=in; read </dev/null; cd $REPLY; cat secret.txt",
    "RANDOM=in; cd $RANDOM; cat ../private/secret.txt",
    "FUNCNAME=in; cd $FUNCNAME; cat secret.txt",
    "x=in; u=unset; $u x; cd $x; cat secret.txt",
    'f() { unset "$1"; }; x=in; f x; cd $x; cat secret.txt',
    'x=in; export "x="; cd $x; cat secret.txt',
    "x=in; y=x=; export $y; cd $x; cat secret.txt",
    "x=in; printf -vx ''; cd $x; cat secret.txt",
    "x=in; typeset -n r=x; r=; cd $x; cat secret.txt",
    "x=in; y=0; x[${y[0]}]=; cd $x; cat secret.txt",
    "echo x= > y; x=in; . ./y; cd $x; cat secret.txt",
    "x[1]=in; cd $x; cat secret.txt",
    "set -- ''; for x do cd $x; cat secret.txt; done",
    "select x in a; do break; done <<< 9; cd $x; cat secret.txt",
    "false && if true; then x=in; else x=y; fi; cd $x; cat secret.txt",
    "if true; then x=in; else x=y; fi | cat; cd $x; cat secret.txt",
    "if true; then x=in; else x=y; fi && true & cd $x; cat secret.txt",
    "if false; then time { true; }; x=in; fi; cd $x; cat secret.txt",
    "f() if true; then x=in; else x=y; fi; cd $x; cat secret.txt",
    "function f { true; x=in; }; cd $x; cat secret.txt",
    "f() { cd $1; cat secret.txt; }; f ''",
    "set -- in; shift; cd $1; cat secret.txt",
    "set -e; cd $1; cat secret.txt",
    "command -p -- cd; cat secret.txt",
    "cat > y <<'E'\nit's $x\nE\ncd $x; cat secret.txt",
    "cat ${PWD/\\/in*/}/../private/secret.txt",
    "x=a/b; cat ${x/a\\/b/leak}",
    'python3 -c \'import os; print(open(os.getcwd() + "/.." + "/private/secret.txt").read())\'',
    "python3 -c 'import os; print(open(f\"{os.getcwd()}/../private/secret.txt\").read())'",
    "python3 -c 'import os; print(open(\"%s/../private/secret.txt\" % os.getcwd()).read())'",
    'python3 -c \'import os; print(open(os.environ["HOME"] + "/secret.txt").read())\'',
    'python3 -c \'from os import environ as e; print(open(e["HOME"] + "/secret.txt").read())\'',
    'python3 -c \'import os; print(open(os.path.split(os.getcwd())[0] + "/private/secret.txt")'
    ".read())'",
    "perl -e 'open F, (getpwuid($<))[7] && $ENV{q(HOME)} . \"/secret.txt\"; print <F>'",
    "python3 - <<'E'\nfrom pathlib import Path\nprint((Path.home() / 'secret.txt').read_text())\nE",
    "python3 -c 'import os; os.chdir(os.pardir); print(open(\"private/secret.txt\").read())'",
    "python3 -Bc 'import os; os.chdir(os.path.dirname(os.getcwd())); os.system(\"cat private/*\")'",
    "python3 - <<'E'\nfrom pathlib import *\n"
    "print(next(Path(Path.cwd()).parent.glob('p*/s*')).read_text())\nE",
    'awk \'BEGIN { f = ENVIRON["HOME"] "/secret.txt"; getline l < f; print l }\'',
    "(x=in); cd $x; cat secret.txt",
    "if false; then x=in; fi; cd $x; cat secret.txt",
    "while false; do x=in; done; cd $x; cat secret.txt",
    "for x in; do :; done; cd $x; cat secret.txt",
    "x=in | true; cd $x; cat secret.txt",
    "x=in true; cd $x; cat secret.txt",
    "x=in; x=; cd $x; cat secret.txt",
    'cd "$@" && cat secret.txt',
    "sh -c 'cd $unset && cat secret.txt'",
    "cd $(cd none && pwd); cat secret.txt",
    "cd $(realpath none/x) && cat secret.txt",
    "cd `readlink -f none/x`; cat secret.txt",
    "cd $(readlink a.txt); cat secret.txt",
    "cd $(cat $(ls none)); cat secret.txt",
    "cd $(dirname $(realpath none/x/y)); cat secret.txt",
    "cd $(dirname $unset); cat secret.txt",
    "cd $(basename $(true)); cat secret.txt",
    "cd $(pwd | grep none); cat secret.txt",
    "cd $(date +); cat secret.txt",
    "cd $(id -u none); cat secret.txt",
    "cd $(echo $x$y); cat secret.txt",
    "cd $(\ntrue\n); cat secret.txt",
    "cd $x$(true)`true`${y}; cat secret.txt",
    "cd $x $y; cat secret.txt",
    "cd ${x#y}; cat secret.txt",
    "cd ${x:-$(true)}; cat secret.txt",
    "cd ${x:+a}; cat secret.txt",
    "cd {,}; cat secret.txt",
    "cd $!; cat secret.txt",
    "x=$(cd none && pwd); cd $x; cat secret.txt",
    "x=$(find . -name none); cd $x; cat secret.txt",
    'x="`cat none`"; cd $x; cat secret.txt',
    "x=$(find . -name none | head -1); cd $(dirname $x); cat secret.txt",
    "y=$x; cd $y; cat secret.txt",
    "x=''; cd $x; cat secret.txt",
    "x=a; unset x; cd $x; cat secret.txt",
    "export x; cd $x; cat secret.txt",
    "echo x; cd $x; cat secret.txt",
    "cd $x; x=1; cat secret.txt",
    'find "$PWD" -maxdepth 0 -execdir cat private/secret.txt ";"',
    "yes | find $(pwd) -type d -okdir cat private/secret.txt ';'",
    "true && cd -P && cat secret.txt",
    "(cd 2>&1 # home\ncat secret.txt)",
    "if \\cd; then cat secret.txt; fi",
    "x=1 builtin cd; cat secret.txt",
    "echo $(cd; cat secret.txt)",
    "sh -c 'cd; cat secret.txt'",
    "bash <<'E'\ncd\ncat secret.txt\nE",
    "cat .\\\n./private/secret.txt",
    "echo 'cat .$x./private/secret.txt' > y; sh y",
    "awk 'BEGIN { system(\"cat .${x}./private/secret.txt\") }'",
    "python3 -c \"print(open('.'*2 + '/private/secret.txt').read())\"",
    "python3 -c \"print(open('le' 'ak').read())\"",
    "python3 -c \"print(open(chr(46)*2+chr(47)+'private/secret.txt').read())\"",
    'python3 -c "print(open(bytes([108, 101, 0x61, 107])).read())"',
    "python3 -c \"print(open('..%sprivate/secret.txt' % '/').read())\"",
    "python3 -c \"print(open('{0}{0}/private/{1}'.format('.', 'secret.txt')).read())\"",
    'python3 -c "print(open(f\'{\\".\\"*2}/private/secret.txt\').read())"',
    "python3 -c \"print(open(''.join(['.', './private/', 'secret.txt'])).read())\"",
    "python3 -c \"print(open('kael'[::-1]).read())\"",
    "python3 -c \"from base64 import *; exec(b64decode('cHJpbnQob3BlbignbGVhaycpLnJlYWQoKSk='))\"",
    "python3 -c \"print(open(bytes.fromhex('6c65616b')).read())\"",
    "python3 -c \"from os.path import *; print(open(dirname(abspath('.')) + '/private/secret.txt')"
    '.read())"',
    "python3 -c \"import os; print(open(os.path.pardir + '/private/secret.txt').read())\"",
    "cd $(mktemp -d none/XXXX); cat secret.txt",
    "export TMPDIR=none; cd $(mktemp -d); cat secret.txt",
    "cat $(echo kael | rev)",
    "rev <<< txt.terces/etavirp/.. | xargs cat",
    "echo __/private/secret.txt | tr _ . | xargs cat",
    "cat $(tr _ . <<< __/private/secret.txt)",
    "echo xx/private/secret.txt | sed 's#xx#..#' | xargs cat",
    "echo Y2F0IGxlYWs= | base64 -d | sh",
    "base64 -d <<< Y2F0IGxlYWs= | bash",
    'eval "$(echo Y2F0IGxlYWs= | base64 -d)"',
    "sh <(echo Y2F0IGxlYWs= | base64 -d)",
    "echo cHJpbnQob3BlbignbGVhaycpLnJlYWQoKSk= | base64 -d | python3",
    "echo 6c65616b | xxd -r -p | xargs cat",
    "cut -c2- <<< xleak | xargs cat",
    "cat $(printf '.%.0s' 1 2)/private/secret.txt",
    "ls -a | xargs grep -rh '' --include=secret.txt",
    "for i in $(ls -a); do cat $i/private/secret.txt; done",
    "ls -f | while read -r i; do cat $i/private/secret.txt; done",
    "env | grep ^HOME= | cut -d= -f2 | xargs -I{} cat {}/secret.txt",
    "IFS=_; x=a_../private/secret.txt; cat $x",
    "x=b..; IFS=b; cat $x/private/secret.txt",
    "x=private/secret.txt; cat ${x/#/../}",
    'a=(. .); printf -v x %s "${a[@]}"; cat $x/private/secret.txt',
    'a=(. .); IFS=; cat "${a[*]}/private/secret.txt"',
    "python3 - <<'E'\nprint(open('.' + './private/secret.txt').read())\nE",
    'perl -e \'open F, "." . "./private/secret.txt"; print <F>\'',
    'perl -e \'open F, "." x 2 . "/private/secret.txt"; print <F>\'',
    'awk \'BEGIN { while ((getline l < ("." "./private/secret.txt")) > 0) print l }\'',
    'awk \'BEGIN { print "cat ." "./private/secret.txt" | "sh" }\'',
    "sed 's#.*#../private/secret.txt#' a.txt | xargs cat",
    "cat $(sed s/.*/../ a.txt)/private/secret.txt",
    "cat `date +%t../private/secret.txt`",
    "cat $(printf '%c%c/private/secret.txt' .. ..)",
    "cat $(printf %.2s ..abc)/private/secret.txt",
    "cat $(echo ab../private/secret.txt | cut -b3-)",
    "rev <<< 'txt.terces/etavirp/.. tac' | sh",
    "python3 -c \"print(open(chr(46)*2+'/private/secret.txt').read())\"",
    "echo 'cat l*' > x; sh x",
    "echo 'cat l*' | tee x; sh x",
    "echo 'cat l*' | cat > x; sh x",
    "echo 'cat l*' > xy; echo \"$(sh xy)\"; sh q",
    "while read a; do cat $a$a/private/secret.txt; done <<< .",
    'IFS=q read a b <<< ".q./private/secret.txt"; cat $a$b',
    'IFS=q; x=".q./private/secret.txt"; set -- $x; cat $1$2',
    'IFS=; set -- . .; cat "$*/private/secret.txt"',
    "echo 'cat l*' > xy; sh ./x\"y\"",
    "echo 'cat l*' > xy; bash -c '. ./x\"y\"'",
    "echo 'cat l*' > xy; mkdir d; sh ?y",
    "echo 'cat l*' > xy; cp -r . d; sh d/xy",
    "echo 'cat l*' > xy; bash -c 'cat -s <xy | sh'",
    "echo 'cat l*' > xy; grep -h l. . -r --include=[x]y | sh",
    "y=xy; echo 'cat l*' > xy; sh $y",
    "python3 -c \"d='.'; print(open(d + d + '/private/secret.txt').read())\"",
    "python3 -c \"d = '.'\np = d * 2\nprint(open(f'{p}/private/secret.txt').read())\"",
    "python3 - <<'E'\na, b = 1, 2\nx = 'le'\ny = x + 'ak'\nprint(open(y).read())\nE",
    'perl -e \'$d = "."; open F, "$d$d/private/secret.txt"; print <F>\'',
    'awk \'BEGIN { d = "."; f = d d "/private/secret.txt"; while ((getline l < f) > 0) print l }\'',
    "echo zy/private/secret.txt | tr y-z . | xargs cat",
    "echo . ./private/secret.txt | tr -d ' ' | xargs cat",
    "echo bb/private/secret.txt | sed y/b/./ | xargs cat",
    "echo 'zz!private!secret.txt' | sed 's/z/./g; s#!#/#g' | xargs cat",
    "echo private/secret.txt | sed -e 's,^,./,' -e 's,^,.,' | xargs cat",
    "echo aa | sed 's/a/./g' | sed 's#$#/private/secret.txt#' | xargs cat",
    "echo 'xxcat l*' | tail -c +3 | sh",
    "bash <(printf 'cat .%s' ./private/secret.txt)",
    "find . -maxdepth 0 -exec cat {}./private/secret.txt ';'",
    "find . -maxdepth 0 -exec sh -c 'cat $0./private/secret.txt' {} ';'",
    "pwd | rev | cut -d/ -f2- | rev | xargs -I{} cat {}/private/secret.txt",
    "pwd | awk -F/ -v OFS=/ 'NF--' | xargs -I{} cat {}/private/secret.txt",
    "printf 'cat .' > x; printf './private/secret.txt' >> x; sh x",
    "echo -n 'cat .' > x; echo './private/secret.txt' >> x; bash ./x",
    "{ printf 'cat .'; printf './private/secret.txt'; } | sh",
    "(printf 'cat .'; printf './private/secret.txt') > x; sh x",
    "printf 'cat .' > x; printf './private/secret.txt' > y; cat x y | sh",
    "for d in */; do cd $d; cat ../../private/secret.txt; cd ..; done",
    "for d in */; do (cd $d && cat ../../private/secret.txt); done",
    "for d in */; do cd $d; cd ..; cd ..; cat private/secret.txt; done",
    "cd in; for d in */; do cd $d; cat ../secret.txt; cd ..; done",
    "cd in; for d in *; do cd $d && cat ../secret.txt; done",
    "for d in in/*; do cd $d && cat ../secret.txt; done",
    "for s in in; do cd $s; for d in */; do cd $d; cat ../secret.txt; done; done",
    "for x in 1 2; do for d in */; do (cd $d && cat ../secret.txt); done; cd in; done",
    "for d in *; do cd $d; cat ../private/secret.txt; cd ..; done",
    "for d in */; do d=none; cd $d; cat ../private/secret.txt; done",
    "for d in here; do rmdir $d; done; for d in here; do cd $d; cat ../private/secret.txt; done",
    "ln -s ../private/here zz; for d in */; do cd $d; cat ../secret.txt; cd ..; done",
    "x[1]=in; cd $x; cat secret.txt",
    "cd in && python3 -c \"print(open('../../private/secret.txt').read())\"",
    "cd in && python3 -c \"import os; os.chdir('..'); print(*open('../private/secret.txt'))\"",
    "cd none; python3 -c \"print(open('../private/secret.txt').read())\"",
    "cd in && python3 - <<'E'\nprint(open('../../private/secret.txt').read())\nE",
    'IFS=: read -ra P <<< "$HOME"; for p in "${P[@]}"; do cat "$p/secret.txt"; done',
    'for p in "$HOME"; do head $p/*.txt; done',
    "ls -a | python3 -c \"print(*open([*open(0)][1].strip() + '/private/secret.txt'))\"",
    "x='sh <(echo Y2F0IGxlYWs= | base64 -d)'; eval \"$x\"",
    """x='a=(. .); IFS=; cat "${a[*]}/private/secret.txt"'; bash -c "$x" """,
    r"""python3 -c "import os; os.system('cat \"\$(dirname \"\$PWD\")/private/secret.txt\"')" """,
    "cat > x.sh <<'E'\nbash <(echo Y2F0IGxlYWs= | base64 -d)\nE\nbash x.sh",
    "bash <<'E'\ncat > x.sh <<'F'\nbash <(echo Y2F0IGxlYWs= | base64 -d)\nF\nbash x.sh\nE",
    'echo "$(dirname $PWD | xargs -I{} cat {}/private/secret.txt)"',
    'while read x; do echo $x; done <<< "$(x=le; x+=ak; cat $x)"',
    'read x <<< "$(x=le; x+=ak; cat $x)"; echo $x',
    "declare -A A=([a]='x=(a .); cat ${x[1]}./private/secret.txt'); eval \"${A[a]}\"",
    "setsid echo xx | tr x . | xargs -I{} cat {}/private/secret.txt",
    "echo Y2F0IGxlYWs= | stdbuf -oL base64 -d | sh",
    "setsid ls -a | setsid xargs grep -rh '' --include=secret.txt",
    "/usr/bin/dirname $PWD | xargs -I{} cat {}/private/secret.txt",
    "python3 -c 'import os\n"
    'os.execvp("sh", ["sh", "-c", "ls -a | while read a; do cat $a/private/*.txt; done"])\'',
    'perl -e \'exec "sh", "-c", "ls -a | while read a; do cat \\$a/private/*.txt; done"\'',
    "X=1 ls -a | xargs grep -rh '' --include=secret.txt",
    "timeout 5 ls -a | xargs grep -rh '' --include=secret.txt",
    "sh -c 'ls -a here' | xargs grep -rh '' --include=secret.txt",
    "X=1 echo __/private/secret.txt | tr _ . | xargs cat",
    "echo 'echo __/private/secret.txt | tr _ . | xargs cat' | sh",
    "bash <<< 'cut -c2- <<< xleak | xargs cat'",
    "dirname $PWD | { read x; cat $x/private/secret.txt; }",
    "cat $(true; tr _ . <<< __/private/secret.txt)",
    "for d in $(ls -a here); do echo $d; done; cat $d/private/secret.txt",
    "(for d in $(ls -a); do echo $d; done; :) | xargs grep -rh '' --include=secret.txt",
    "for d in */; do :; done; cd in; for d in */; do cd $d && cat ../secret.txt; done",
    'perl -e \'$x = "a"; open F, "." x 2 . "/private/secret.txt"; print <F>\'',
    "cd in && python3 -c \"import os; d = os.open('up', 0)"
    "\nf = os.open('../secret.txt', 0, dir_fd=d)"
    '\nprint(os.read(f, 99).decode())"',
    'cd here && python3 -c "f = open; open = lambda x: print('
    "*f(x + '/' + x + '/private/secret.txt'))\nopen('..')\"",
]
QUOTED = [
    ".''./private/secret.txt",
    '"."./private/secret.txt',
    r".\./private/secret.txt",
    "l'e'ak",
    r"l\eak",
]
"""Paths as they stand in a shell's command, for tools that put a path into one."""
FROM_THE_TOP = [
    "true; cat $(echo -n a > f; tr a / < f){top}/{rest}",
    "true; cat $(nproc | tr -c / / | head -c 1){top}/{rest}",
    "true; cat $(pwd | tr -cd / | head -c 1){top}/{rest}",
    "true; cat $(expr substr / 1 1){top}/{rest}",
    "true; expr $x / $y > f; cat $(cat f){top}/{rest}",
    "cat /$x'{top}'/{rest}",
    'cat /$x"{top}"/{rest}',
    "cat /{{{first}..{first}}}{others}/{rest}",
    "cat /${{x%y}}{top}/{rest}",
    "cat /$(true){top}/{rest}",
    "shopt -s expand_aliases; alias docker='tail -qn+1 --'\ndocker run -w /{top}/{rest}",
    "shopt -s expand_aliases; alias git='tail -qn+1 --'\ntrue; git commit -m '/{top}/{rest}'",
    "cat /{first}${{x[@]}}{others}/{rest}",
    "docker() {{ true; }}\ndocker # run '\nprintf %s \"$(grep -h nobody -w /{top}/{rest} )\" # '",
    "docker() {{ true; }}\ndocker run \\' ; echo -n $(grep -h nobody -w /{top}/{rest} ) # '",
    'docker() {{ true; }}\ndocker run "a\\"" ; echo -n $(grep -h nobody -w /{top}/{rest} ) # "',
    'docker() {{ shift; echo -n $@; }}\ndocker run "$(grep -h nobody -w /{top}/{rest} )"',
    "docker() {{ true; }}\ndocker run $'\\'' ; echo -n $(grep -h nobody -w /{top}/{rest} ) # '",
    "true() {{ :; }}\ndocker() {{ true; }}\ndocker\nexec echo -n $(cat /{top}/{rest})",
    "podman() {{ shift; echo -n $($@); }}\npodman unshare grep -h nobody -w /{top}/{rest}",
    "docker() {{ true; }}\ncat <<E >&2\ndocker run '\nE\n"
    'printf %s "$(grep -h nobody -w /{top}/{rest} )" # \'',
]

TYPED = [
    "cd in # a\ncat ../private/secret.txt",
    "cd in && true # a; cd -\ncat ../private/secret.txt",
    "cd in && true # a & b && cd $OLDPWD\ncat ../private/secret.txt",
    "cd in && (true) # a\ncat ../private/secret.txt",
    "{ cd in; } # a\ncat ../private/secret.txt",
    "for d in in # a\ndo cd $d; cat ../private/secret.txt; cd ..; done",
    "cd in && echo 'cat ../../private/secret.txt' > f # ; . ./f",
    "cd in && tee f.py <<'E' # ; . ./f.py\ncat ../../private/secret.txt\nE",
    "cd in # it's\necho ';cat ../private/secret.txt;' # it's",
    "echo a # ; cd / ; cat {rest}",
    "printf %s a # | cat; cd $HOME; cat secret.txt",
    "x=in # a\ncd $x; cat secret.txt",
    "y=a x=in # it's a\ny= # it's a\ncd $x; cat secret.txt",
]
"""Commands that are typed into a shell that knows no remarks there, as `zsh -i`."""


MOUNTING = [
    r"-v \/:/x",
    '--volume "/"":/x"',
    "-v ${X}/:/x",
    "-v $X/:/x",
    '-v "$X"/:/x',
    "-v {/,a}:/x",
    "-v $'/':/x",
    r"-v $'\x2f':/x",
    "-v ''/:/x",
    "-v /'':/x",
    "-v$X/:/x",
    '-v $"/":/x',
    "-v /${X:+a}.${Y:-.}:/x",
    "-v $(true)/:/x",
    '-v "`true`/":/x',
    "-v $X /:/x",
    "-v <a.txt /:/x",
    "-v 2>&1 /:/x",
    "-v \\\n /:/x",
    "-itv /:/x",
    "-v$IFS/:/x",
    "-v $X$'/':/x",
    "{-v,/:/x}",
    '"-"v /${X#y}:/x',
    "--mo${X-u}nt type=bind,src=\\/,target=/x",
    "--mount type=bind,source=$X/,target=/x",
]
"""Options of `docker run` that mount the whole disk."""
WHOLE_DISK = re.compile(r"(-itv|-v|--volume|--mount)?\s*(/[/.]*:/x|type=bind,(src|source)=/,.*)")


@pytest.fixture
def top(tmp_path: Path) -> Path:
    return tree_in(tmp_path)


def tree_in(folder: Path) -> Path:
    folder = plant(
        folder,
        "project/a.txt",
        "project/leak => ../private/secret.txt",
        "project/in/up => ../../private/here",
        "project/here/",
        "project/.git/objects/",
        "project/.git/refs/",
        "private/here/",
    )
    (folder / "project" / ".git" / "HEAD").write_text("ref: refs/heads/main")
    (folder / "private" / "secret.txt").write_text(HIDDEN)
    (folder / "home" / "of-the-user").mkdir(parents=True)
    (folder / "home" / "secret.txt").write_text(HIDDEN)
    return folder


def objection(top: Path, text: str, kind: Kind = Kind.COMMAND) -> str | None:
    world = context(share(top / "project"), top / "project", env={"HOME": f"{top}/home"})
    candidate = PathCandidate("/k", "k", kind, text, "")
    judge = Judge(world, Policy(), needs_write=True, candidates=[candidate])
    return judge.objection(candidate)


def printed(top: Path, command: str, *, typed: bool = False) -> str:
    bash = shutil.which("bash")
    assert bash is not None, "install bash"
    options = ["--norc", "+O", "interactive_comments", "-i"] if typed else ["-c", command]
    env = {"PATH": os.environ["PATH"], "HOME": f"{top}/home"}
    run = subprocess.run(  # noqa: S603 - a shell is what is asked here
        [bash, *options],
        input=f"{command}\n" if typed else None,
        cwd=top / "project",
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout


@pytest.mark.parametrize("command", READING)
def test_a_command_that_a_shell_takes_outside_is_refused(top: Path, command: str) -> None:
    command = command.replace("{many}", " ".join(f"a{n}" for n in range(60)))
    command = command.replace("{few}", " ".join(f"a{n}" for n in range(9)))
    assert HIDDEN in printed(top, command)
    assert objection(top, command) is not None


@pytest.mark.parametrize("command", TYPED)
def test_a_command_whose_remarks_a_shell_may_run_is_refused(top: Path, command: str) -> None:
    command = command.replace("{rest}", str(top / "private" / "secret.txt")[1:])
    assert HIDDEN in printed(top, command, typed=True)
    assert objection(top, command) is not None


@pytest.mark.parametrize("path", QUOTED)
def test_a_path_that_a_shell_takes_outside_is_refused(top: Path, path: str) -> None:
    assert printed(top, f"cat {path}") == HIDDEN
    for kind in (Kind.PATH, Kind.WEAK):
        assert objection(top, path, kind) == OUTSIDE


@pytest.mark.parametrize("command", FROM_THE_TOP)
def test_a_command_that_spells_an_absolute_path_oddly_is_refused(top: Path, command: str) -> None:
    _, first, rest = str(top / "private" / "secret.txt").split("/", 2)
    command = command.format(top=first, first=first[0], others=first[1:], rest=rest)
    assert printed(top, command) == HIDDEN
    assert objection(top, command) == OUTSIDE


@pytest.mark.parametrize("options", MOUNTING)
def test_a_mount_of_the_whole_disk_is_refused_however_it_is_spelled(
    top: Path, options: str
) -> None:
    passed = printed(top, f"docker() {{ printf '%s\\n' \"$@\"; }}; docker run {options} a")
    assert any(map(WHOLE_DISK.fullmatch, passed.splitlines())), passed
    for command in (f"docker run {options} a", f"cd . && docker run -v ./b:/y {options} a"):
        assert objection(top, command) == OUTSIDE


MOVED = [
    "mv $PWD/in/back y; cat y/private/secret.txt",
    'mv "${PWD}/in/back" y; cat y/private/secret.txt',
    'perl -e \'rename "in/back", "y"\'; cat y/private/secret.txt',
    "python3 -c \"import pathlib as p; p.Path('in/back').rename('y')\"; cat y/private/secret.txt",
    "python3 -c \"import os; os.link('in/back','y',follow_symlinks=0)\"; cat y/private/secret.txt",
    "mv in/b* y; cat y/private/secret.txt",
    "mv in/{back,none} y 2>&-; mv in/back y; cat y/private/secret.txt",
    "cp -a in/. .; cat back/private/secret.txt",
    "cd in && mv back .. && cat ../back/private/secret.txt",
    "cd in; mv back ..; cd ..; cat back/private/secret.txt",
    "find in -name back -exec mv {} y \\;; cat y/private/secret.txt",
    "ls in | xargs -I{} mv in/{} .; cat back/private/secret.txt",
    "ls in | while read x; do mv in/$x .; done; cat back/private/secret.txt",
    "for x in in/b*; do mv $x y; done; cat y/private/secret.txt",
    "tar cf - -C in . | tar xf -; cat back/private/secret.txt",
    "(cd in; tar c back) | tar x; cat back/private/secret.txt",
    "python3 -c \"import os; os.rename('in/back', 'y')\"; cat y/private/secret.txt",
    "mv in z; cat z/back/../private/secret.txt",
    "mv in/* .; ls; cat back/private/secret.txt",
    "cp -a in/. here && mv here/back . && cat back/private/secret.txt",
    "mv in/* here; cat here/*/leak",
]
"""Commands that move a link to the folder above it, which then leads outside."""
IN_PLACE = [
    "mv a.txt b.txt; ls b.txt",
    "mv here/* in/; ls in",
    "cp -a here/. z; ls z/",
    "find here -name x -exec mv {} . \\;",
    "tar cf x.tar . && ls x.tar",
    "ls | xargs -I{} cp {} here/; ls here",
]


@pytest.mark.parametrize("command", MOVED)
def test_a_link_that_is_moved_is_not_followed(top: Path, command: str) -> None:
    (top / "project" / "in" / "back").symlink_to("..")
    assert objection(top, command) is not None
    assert HIDDEN in printed(top, command)


def test_other_files_may_be_moved(top: Path) -> None:
    assert [command for command in IN_PLACE if objection(top, command)] == []


KNOWN = st.sampled_from(
    ["$PWD", ".", "..", "in", "a.txt", "leak", "in/up", '"$PWD"', "$x", '"$x"', "none/x", "$none"]
)
PRINTING = (
    *("dirname {}", 'dirname -- "{}"', "realpath {}", "readlink -f {}", "echo {}", "printf %s {}"),
    *("cd {} && pwd", "echo {} | xargs dirname", "basename {}", "pwd", "dirname {} 2>/dev/null"),
)
"""Commands that print a path of the one that they are given, or none."""


def in_place(of: tuple[str, str, str]) -> str:
    form, command, word = of
    return form.format(command.format(word))


WORDS = st.recursive(
    KNOWN,
    lambda inner: st.tuples(
        st.sampled_from(["$({})", '"$({})"', "$( {} )"]), st.sampled_from(PRINTING), inner
    ).map(in_place),
    max_leaves=3,
)
BEFORE = st.sampled_from(
    ["x=.; ", "x=$PWD; ", "x=in; ", "x=$(pwd); ", "x=$PWD/in; ", "x=$(cat none); ", ""]
)
OPENING = st.sampled_from(
    [
        *("ls {}", "ls {}/..", "cat {}/secret.txt", "y={}; ls $y/..", "cd {} && ls", "cd {}; ls"),
        *("y={}; cd $y; ls", "y={}; cd $(dirname $y); ls", "cd {}$none; ls"),
        *("echo {} | xargs ls", "y={}; cat $(dirname $y)/secret.txt", "ls ${{x%/*}} {}"),
    ]
)


@given(BEFORE, OPENING, WORDS)
def test_what_a_shell_opens_by_what_commands_print_is_refused(
    before: str, opening: str, word: str
) -> None:
    command = before + opening.format(word)
    with TemporaryDirectory() as folder:
        top = tree_in(Path(folder))
        shown = printed(top, command)
        if HIDDEN in shown or not {"private", "etc", "of-the-user"}.isdisjoint(shown.split()):
            assert objection(top, command) is not None
