/* A pull parser for the XML that stores answer with: elements and text. Attributes, comments and processing instructions are passed over; a document type is refused, so that nothing can
 * grow or be fetched. Pure; any bytes are safe to give. */
#pragma once
#include "base/buf.h"
#include "base/slice.h"

enum { XMLPULL_DEPTH_MAX = 16 };

enum xmlpull_event {
    XMLPULL_ERROR, /* not well-formed, or deeper than XMLPULL_DEPTH_MAX; stays so */
    XMLPULL_START, /* name */
    XMLPULL_TEXT,  /* text, references resolved; whitespace too. May come in several pieces */
    XMLPULL_END,   /* name */
    XMLPULL_DONE,  /* behind the root element */
};

struct xmlpull {
    struct slice source; /* borrowed from init to fini */
    size_t at;
    struct slice name; /* of the element that starts or ends, without its namespace prefix; points into source */
    struct slice text; /* valid until the next step */
    struct buf decoded;
    struct slice open[XMLPULL_DEPTH_MAX]; /* whole names, with prefixes */
    unsigned depth;
    bool ends_now; /* of <a/>: its end comes next */
    bool had_root;
    bool failed;
};

void xmlpull_init(struct xmlpull *x, struct slice source);
void xmlpull_fini(struct xmlpull *x);
enum xmlpull_event xmlpull_step(struct xmlpull *x);

/* Appends text with & < > " and bytes below space written as references, so that it can stand in an element. */
void xmlpull_escape(struct buf *out, struct slice text);
