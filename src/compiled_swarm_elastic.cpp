// Nothing but bodies is in this library.
