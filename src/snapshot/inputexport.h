/* Rows from a running Sherd at one cut (snapshot/input.h): what SNAPSHOT.EXPORT hands out. */
#pragma once
#include "snapshot/inputwire.h"

struct input;
struct input_options;

enum inputexport_answer {
    INPUTEXPORT_BEGUN,
    INPUTEXPORT_UNKNOWN, /* the server has no such command: it is another one, or an older one */
    INPUTEXPORT_NO_DATA, /* it serves a snapshot */
    INPUTEXPORT_FAILED,  /* and why */
};
/* Asks for an export; the connection can be used for something else afterwards unless it has begun. */
enum inputexport_answer inputexport_begin(struct inputwire *w, const struct input_options *o, struct buf *why);

/* After it has begun. Takes the connection, which is on the heap, and keeps o. */
struct input *inputexport_open(struct inputwire *w, const struct input_options *o);
