/* Rows from a file of JSON lines (snapshot/input.h). A string field is its text, another one its JSON as it stands in the file; a value that is null is empty. {"base64":"..."} is these bytes. */
#pragma once
#include "snapshot/input.h"
#include "snapshot/inputfile.h"

/* Takes the open file. Keeps o. */
struct input *inputjson_open(struct inputfile *file, const struct input_options *o);
