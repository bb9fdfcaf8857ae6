"""The resources of the admin API, a file for each; a resource is a tuple of endpoints."""
