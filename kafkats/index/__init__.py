"""The sparse indexes beside a .log: reading, searching, building, checking."""
