"""A handle's processes: `process_tree` finds, signals and ends them, `reaper` reaps adopted
orphans, `survivors` holds the unkillable."""
