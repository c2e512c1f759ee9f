/* OBJECT: what a value is made of, in the words that Redis has for it. */
#pragma once
#include "store/entry.h"

struct exec;

const char *objects_type_name(enum type t);               /* "string", "list", ...: TYPE, SCAN TYPE */
const char *objects_encoding_name(const struct entry *e); /* "embstr", "listpack", ...: OBJECT ENCODING, DEBUG OBJECT */
void objects_command(struct exec *x);
bool objects_needs_values(const struct slice *argv, uint32_t argc); /* ENCODING does, the other questions do not */
