"""How fast the package is, as ratios in one run. `make bench` runs everything."""
