"""What producers and consumers agree on: schemas, their versions, and who may change them."""
