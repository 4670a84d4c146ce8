"""`python -m gsat` is the command `gsat`."""

import os
import sys

# Python puts the working folder first with -m: a file beside the data would be taken for a library of the same name
if sys.path and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]

from gsat.cli import main

if __name__ == "__main__":
    main()
