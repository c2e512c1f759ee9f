/* What the files of the extension module sherd._sherd share: keys and columns out of Python objects, options, errors.
 *
 * Only the limited API of Python 3.9 is used, so that one build serves every later version. Functions that give a PyObject pointer or an int follow Python's rule: NULL or -1 with an
 * exception set. All are called with the GIL held; those that wait for a disk or a store release it while they do. */
#pragma once
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "cel/cel.h"
#include "object/object.h"
#include "route/router.h"
#include "route/snapkey.h"

/* ---- errors */

/* Sets the exception that sherd/errors.py has for a code of base/err.h; text is what failed and why. Gives NULL. */
PyObject *pyerrors_code(int code, const char *text);
/* Sets the exception class of this name in sherd/errors.py. Gives NULL. */
PyObject *pyerrors_class(const char *name, const char *text);

/* ---- keys */

/* A key out of an int, str, bytes or what can be used as one of them (__index__, bytearray, memoryview). It points into *holder, a new reference, NULL for integers. */
int pykeys_one(PyObject *object, struct snapkey *key, PyObject **holder);
PyObject *pykeys_to_python(const struct snapkey *key);

struct pykeys {
    struct snapkey *keys;
    size_t n;
    PyObject *held; /* list of what keys point into */
};

/* Many keys: a sequence of them, or a bytes object that holds int64 numbers in the machine's order. pykeys_fini afterwards, also after a failure. */
int pykeys_init(struct pykeys *k, PyObject *objects);
void pykeys_fini(struct pykeys *k);

/* ---- text out of objects, for C functions that want strings */

/* UTF-8 of a str, NUL-terminated; it lives as long as *holder, a new reference. */
const char *pytext_of(PyObject *object, PyObject **holder, size_t *n);
/* The string under a name in a dict, kept alive by the list `held`; NULL without an exception if it is missing or None. */
const char *pytext_option(PyObject *dict, const char *name, PyObject *held);
/* The number under a name; 0 if it is missing or None. True and False are 1 and 0. -1: an exception is set. */
int64_t pytext_number(PyObject *dict, const char *name);
PyObject *pytext_or_none(const char *text);

/* ---- routing expressions */

struct pycel {
    struct router_cel cel; /* points into what follows */
    struct router_column *columns;
    int64_t *ints;
    struct slice *texts;
    PyObject *held;
};

/* An expression out of a str, lists of names and types, and a list of tokens (all int or all str) or None. pycel_fini afterwards, also after a failure. */
int pycel_init(struct pycel *p, PyObject *expr, PyObject *names, PyObject *types, PyObject *tokens);
void pycel_fini(struct pycel *p);

/* ---- stores */

/* The options of a store out of a dict with the fields of sherd.StoreOptions. */
int pystore_options(PyObject *dict, PyObject *held, struct object_options *options);
/* Opens it; NULL with an exception. */
struct object_store *pystore_open(PyObject *url, PyObject *options);

/* ---- types: each gives a new heap type for the module */

PyObject *pyrouter_type(void);
PyObject *pybuilder_type(void);
PyObject *pypublish_type(void);
PyObject *pyreader_type(void);
PyObject *pyreader_cursor_type(void);
