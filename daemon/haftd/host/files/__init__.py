"""Files: `runtime_folder` with the socket, `lockfile`, `id_log` of used handle ids, `spool_folder`,
`own_files` under all their names; `beneath` opens files below a folder, `regular` only regular
files."""
