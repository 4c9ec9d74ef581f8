"""Studies between real sites: a coordinator, the federation file, and the engine."""
