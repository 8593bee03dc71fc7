"""``python -m clusterlab``: the same as the ``clusterlab`` command (torchrun starts modules)."""

import sys

from clusterlab.cli.main import main

sys.exit(main())
