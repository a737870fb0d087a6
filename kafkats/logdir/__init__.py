"""Read and change log.dirs roots and their partition directories."""
