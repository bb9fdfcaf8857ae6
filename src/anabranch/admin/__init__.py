"""The admin API over HTTP: REST resources, metrics, and the server that carries them."""
