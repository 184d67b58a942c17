"""The same work done through haft, through tmux and through pexpect, side by side in one run."""
