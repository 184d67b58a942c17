"""Configuration of the daemon.

`options` are the command line and the environment; `settings` the configuration files, with
`inquiry_settings` for `[inquiry]`; `values` reads single values, `loopback` classifies addresses.
"""
