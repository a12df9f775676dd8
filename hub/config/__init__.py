"""hub.yaml and other programs' configs."""
