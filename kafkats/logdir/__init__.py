"""A log.dirs root and its partition directories: what lies in them, and every change to them."""
