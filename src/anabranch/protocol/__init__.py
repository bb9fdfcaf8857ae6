"""The Pulsar binary protocol with the network taken out: bytes in, values out."""
