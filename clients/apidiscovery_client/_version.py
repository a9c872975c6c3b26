"""The version of this package, for those who cannot wait for the package's metadata to be read."""

VERSION = "0.1.0"
