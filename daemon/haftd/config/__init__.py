"""Configuration of the daemon.

`command_line`: the options of `haftd`; `options`: those and the environment; `settings`:
configuration files, with `inquiry_settings` and `mcp_settings`; `values`: readers of single values.
"""
