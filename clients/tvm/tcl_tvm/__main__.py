"""python3 -m tcl_tvm import|import-ms|agent|tune-demo"""
import sys
from typing import List, Optional

USAGE = """usage: python3 -m tcl_tvm COMMAND [options]
  import      bring Ansor logs into tcld (no TVM needed)
  import-ms   bring MetaSchedule databases into tcld (no TVM needed)
  agent       measure what tcld selects, with TVM
  tune-demo   tune a matrix product with tcld's scores, with TVM
COMMAND --help lists the options."""


def main(argv: Optional[List[str]] = None) -> None:
    argv = sys.argv[1:] if argv is None else argv
    command = argv[0] if argv else ""
    if command == "import":
        from .importer import main as run
    elif command == "import-ms":
        from .importer_ms import main as run
    elif command == "agent":
        from .agent import main as run
    elif command == "tune-demo":
        from .demo import main as run
    elif command in ("-h", "--help"):
        print(USAGE)
        return
    else:
        sys.exit(USAGE)
    run(argv[1:])


if __name__ == "__main__":
    main()
