"""The daemon's own tag (`process_tag`), in its initial environment.

Few imports: they are repeated after the daemon's exec.
"""

from __future__ import annotations

import os
import re
import sys

from haftd.host.process.machine import machine_id, pid_namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import MutableMapping

try:
    # `hashlib` would load OpenSSL, a sixth of the imports that are repeated.
    sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256
except ImportError:
    from hashlib import sha256

VARIABLE = "HAFT_HANDLE"
OUTER = "HAFT_OUTER"
_CARRIED = "HAFT_CARRIED_BY"
FORM = re.compile(r"([0-9a-f]{12})\.([0-9a-f]{12})\.([0-9]{1,20})")


def make_home(folder: str | os.PathLike[str]) -> str:
    """Return a runtime folder's home: a hash of path, pid namespace and machine.

    A container may have the same path with its processes visible outside; machines may share the
    state folder.
    """
    place = os.fsencode(os.path.abspath(folder))  # noqa: PTH100
    words = place + b"\0%d\0" % pid_namespace() + machine_id().encode()
    digest: str = sha256(words).hexdigest()
    return digest[:12]


def make_instance() -> str:
    return os.urandom(6).hex()


def exec_with_tag(home: str, environ: MutableMapping[str, str]) -> str:
    """Execute this process again with a new instance's tag in its environment; return the instance in
    a process that has it.

    Call this first: the exec closes descriptors that are not inheritable. Raises OSError.
    """
    own_tag = FORM.fullmatch(environ.get(VARIABLE, ""))
    # The pid proves the tag: a daemon started within a handle or by a daemon inherits another's.
    if own_tag is not None and own_tag[1] == home and environ.get(_CARRIED) == str(os.getpid()):
        del environ[_CARRIED]
        return own_tag[2]
    mark = f"{home}.{make_instance()}.0"
    new_environ = {**environ, VARIABLE: mark, _CARRIED: str(os.getpid())}
    outer = [environ.get(VARIABLE, ""), *environ.get(OUTER, "").split(":")]
    outer_tags = [
        text for text in outer if (tag := FORM.fullmatch(text)) is not None and int(tag[3]) != 0
    ]
    new_environ.pop(OUTER, None)
    if outer_tags:
        new_environ[OUTER] = ":".join(dict.fromkeys(outer_tags))
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], new_environ)
    raise AssertionError("execve returned")
