"""Units of memory."""

MIB = 1 << 20  # bytes
