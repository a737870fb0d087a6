"""Read, search, build and check the sparse indexes beside a .log."""
