/* What a command does with its keys, in the words of COMMAND INFO and COMMAND GETKEYSANDFLAGS. Pure. */
#pragma once
#include "command/command.h"

/* Words with spaces between: how the key is opened (RO, RW, OW, RM), then what is done to its value (access, update, insert, delete). */
struct keyaccess {
    const char *first; /* of the first key, or of all */
    const char *rest;  /* of the others if they are treated differently, else NULL */
};

struct keyaccess keyaccess_of(const struct command *c);

static inline const char *keyaccess_of_key(struct keyaccess a, int i) { return i && a.rest ? a.rest : a.first; }
