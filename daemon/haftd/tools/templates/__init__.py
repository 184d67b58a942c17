"""Commands with variables: a `template` yields text, `words` splits a command, `shelltext` keeps
values out of scripts."""
