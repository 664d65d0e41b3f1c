"""`python -m pypto_eqsat`: the same as the command `pypto-eqsat`."""

import sys

from pypto_eqsat.cli import main

if __name__ == "__main__":
    sys.exit(main())
