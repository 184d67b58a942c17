"""Commands with variables: a `template` yields text, `words` splits a command, and `shelltext`
keeps values out of scripts.
"""
