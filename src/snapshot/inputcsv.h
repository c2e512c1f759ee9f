/* Rows from a CSV file with a header (snapshot/input.h): the named fields' bytes; a JSON value is an object of strings. */
#pragma once
#include "snapshot/input.h"
#include "snapshot/inputfile.h"

/* Takes the open file, which stands at its beginning. Keeps o. NULL and why: a header that cannot be read, or without a wanted field. */
struct input *inputcsv_open(struct inputfile *file, const struct input_options *o, struct buf *error);
