"""All clients on one daemon: handles started in one, shown and typed into in all, found again after a kill."""
