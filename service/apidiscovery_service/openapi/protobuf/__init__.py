"""Documents as the protobuf of gnostic, and back."""
