"""``python -m fedcsa``."""

from fedcsa.cli.app import main

if __name__ == "__main__":
    main()
