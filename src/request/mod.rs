//! What a request body asks for. Pure: no I/O, no clock.
