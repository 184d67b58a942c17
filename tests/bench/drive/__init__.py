"""The same tasks driven through haft, tmux and pexpect in one run."""
