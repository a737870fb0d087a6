"""Read, search, convert and copy one .log file, and collect facts about it."""
