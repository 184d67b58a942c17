"""The command line of ssh, and one sentence for each of its failures."""

from __future__ import annotations

import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from haft.addresses import Ssh
from haft.ssh import explain, remote_command, ssh_command, ssh_program

BOX = Ssh("box", "me", 2222, "/it's a/h.sock")


def test_the_machine_stands_behind_the_options_and_no_name_becomes_one() -> None:
    command = ssh_command(Ssh("-oProxyCommand=x", "-x"), ["ssh"], control=None, may_start=True)
    assert command[-3:-1] == ["--", "-oProxyCommand=x"]
    assert command[command.index("-l") + 1] == "-x"


def test_ssh_asks_nothing_and_shares_one_connection() -> None:
    command = ssh_command(BOX, ["ssh"], control="/run/100%/ssh-1", may_start=True, connect_s=7)
    options = [after for before, after in pairwise(command) if before == "-o"]
    assert {"BatchMode=yes", "ConnectTimeout=7", "ControlMaster=auto"} < {*options}
    assert "ControlPath=/run/100%%/ssh-1" in options
    assert command[command.index("-p") + 1] == "2222"


def test_options_of_the_user_come_first() -> None:
    program = ssh_program({"HAFT_SSH": "ssh -o 'BatchMode no'"})
    command = ssh_command(BOX, program, control=None, may_start=True)
    assert command.index("BatchMode no") < command.index("BatchMode=yes")
    assert "ControlPath=none" in command


@pytest.mark.parametrize("shell", [*filter(shutil.which, ("sh", "bash", "zsh", "fish"))])
def test_the_command_passes_any_login_shell_in_words(shell: str, tmp_path: Path) -> None:
    haft = tmp_path / ".local" / "bin" / "haft"
    haft.parent.mkdir(parents=True)
    haft.write_text("""#!/bin/sh\nprintf '<%s>' "$HAFT_HOST" "$@"\n""")
    haft.chmod(0o755)
    command = remote_command(BOX, may_start=False)
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "HAFT_HOST": "ssh://elsewhere"}
    done = subprocess.run([shell, "-c", command], env=env, capture_output=True, text=True)
    assert done.stdout == "<><--socket></it's a/h.sock><connect><--announce><--no-start>", (
        done.stderr
    )


@pytest.mark.parametrize(
    ("status", "errors", "words"),
    [
        (
            255,
            "No ED25519 host key is known for box\nHost key verification failed.\n",
            "run `ssh -p",
        ),
        (255, "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\n", "ssh-keygen -R"),
        (255, "me@box: Permission denied (publickey).\n", "ssh-add"),
        (255, "ssh: Could not resolve hostname box: Name or service not known\n", "no machine"),
        (255, "ssh: connect to host box port 2222: Connection refused\n", "no ssh server"),
        (255, "ssh: connect to host box port 2222: Connection timed out\n", "does not answer"),
        (255, "Timeout, server box not responding.\n", "was lost"),
        (255, "", "it gave no reason"),
        (127, "sh: 1: exec: haft: not found\n", "uv tool install haftd"),
        (126, "sh: 1: exec: haft: Permission denied\n", "cannot be executed"),
        (2, "haft connect: unrecognized arguments: --announce\n", "a different version"),
        (3, "haft connect: haftd is not running\n", "on me@box:2222: haftd is not running"),
        (-9, "", "ended with status -9"),
    ],
)
def test_each_failure_is_one_sentence_that_names_the_machine(
    status: int, errors: str, words: str
) -> None:
    text = explain(BOX, status, errors)
    assert words in text and "me@box:2222" in text
    assert text.isprintable()
