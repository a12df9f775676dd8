"""The computer that the hub runs on."""
