#!/usr/bin/env python3
"""The measurement agent from a clone, without an installation; the same as `python3 -m tcl_tvm agent`."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from tcl_tvm.agent import main  # noqa: E402

if __name__ == "__main__":
    main()
