"""Arguments, configuration files, signals, exit codes, tables, progress bars."""
