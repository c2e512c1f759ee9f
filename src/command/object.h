/* OBJECT: what a value is made of, in the words that Redis has for it. */
#pragma once
#include "store/entry.h"

struct exec;

const char *object_type_name(enum type t);               /* "string", "list", ...: TYPE, SCAN TYPE */
const char *object_encoding_name(const struct entry *e); /* "embstr", "listpack", ...: OBJECT ENCODING, DEBUG OBJECT */
void object_command(struct exec *x);
