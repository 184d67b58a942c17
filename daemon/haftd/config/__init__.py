"""Configuration of the daemon.

`options`: command line and environment; `settings`: configuration files, with `inquiry_settings`
and `mcp_settings`; `values`: readers of single values; `loopback`: local addresses.
"""
