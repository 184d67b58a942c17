"""Folders and files of the daemon: `runtime_folder`, `lockfile`, `id_log`, `spool_folder`, `memory_folder`,
`own_files`, `installation`. Opening others' files: `beneath` a folder, `regular` ones only."""
