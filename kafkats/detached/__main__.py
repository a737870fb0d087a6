"""python -m kafkats.detached: as kafkats-host."""

import sys

from kafkats.detached.serving import main

if __name__ == "__main__":
    sys.exit(main())
