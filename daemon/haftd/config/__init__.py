"""Configuration of the daemon.

`options` are the command line and the environment; `settings` the configuration files, with
`inquiry_settings` for `[inquiry]` and `mcp_settings` for `[mcp.<name>]`; `values` reads single values, `loopback` classifies addresses.
"""
