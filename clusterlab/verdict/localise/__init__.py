"""Which NIC, link, switch, GPU or host makes measurements slow, and what to measure next. Pure."""
