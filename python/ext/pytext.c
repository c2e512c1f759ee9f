#include <string.h>

#include "pysherd.h"

const char *pytext_of(PyObject *object, PyObject **holder, size_t *n)
{
    char *p;
    Py_ssize_t size;
    *holder = PyUnicode_AsUTF8String(object);
    if (!*holder) return NULL;
    /* Without a place for the length Python itself refuses strings with a NUL in them. */
    if (PyBytes_AsStringAndSize(*holder, &p, n ? &size : NULL) != 0) {
        Py_DECREF(*holder);
        *holder = NULL;
        return NULL;
    }
    if (n) *n = (size_t)size;
    return p;
}

static PyObject *option(PyObject *dict, const char *name)
{
    PyObject *found = dict && dict != Py_None ? PyDict_GetItemString(dict, name) : NULL; /* borrowed */
    return found == Py_None ? NULL : found;
}

const char *pytext_option(PyObject *dict, const char *name, PyObject *held)
{
    PyObject *found = option(dict, name), *holder;
    if (!found) return NULL;
    const char *p = pytext_of(found, &holder, NULL);
    if (!p) return NULL;
    int rc = PyList_Append(held, holder);
    Py_DECREF(holder);
    return rc == 0 ? p : NULL;
}

int64_t pytext_number(PyObject *dict, const char *name)
{
    PyObject *found = option(dict, name);
    if (!found) return 0;
    int64_t v = PyLong_AsLongLong(found);
    if (v < 0 && !PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "%s is negative", name);
    return PyErr_Occurred() ? -1 : v;
}

PyObject *pytext_or_none(const char *text)
{
    if (text) return PyUnicode_FromString(text);
    Py_RETURN_NONE;
}

int pystore_options(PyObject *dict, PyObject *held, struct object_options *o)
{
    *o = (struct object_options){
        .endpoint = pytext_option(dict, "endpoint", held),
        .region = pytext_option(dict, "region", held),
        .access_key = pytext_option(dict, "access_key", held),
        .secret_key = pytext_option(dict, "secret_key", held),
        .session_token = pytext_option(dict, "session_token", held),
        .profile = pytext_option(dict, "profile", held),
        .ca_file = pytext_option(dict, "ca_file", held),
    };
    if (PyErr_Occurred()) return -1;
    const char *style = pytext_option(dict, "style", held);
    if (style) o->style = strcmp(style, "path") == 0 ? OBJECT_STYLE_PATH : strcmp(style, "virtual") == 0 ? OBJECT_STYLE_VIRTUAL : OBJECT_STYLE_AUTO;
    o->anonymous = pytext_number(dict, "anonymous") > 0;
    o->insecure_tls = pytext_number(dict, "insecure_tls") > 0;
    o->attempts_max = (uint32_t)pytext_number(dict, "attempts_max");
    o->connect_timeout_ms = (uint32_t)pytext_number(dict, "connect_timeout_ms");
    o->stall_timeout_ms = (uint32_t)pytext_number(dict, "stall_timeout_ms");
    return PyErr_Occurred() ? -1 : 0;
}

struct object_store *pystore_open(PyObject *url, PyObject *options)
{
    struct object_options o;
    struct object_store *store = NULL;
    char why[OBJECT_DETAIL_BYTES];
    PyObject *holder = NULL, *held = PyList_New(0);
    const char *at = held ? pytext_of(url, &holder, NULL) : NULL;
    if (at && pystore_options(options, held, &o) == 0) {
        int rc = object_open(&store, at, &o, why);
        if (rc < 0) pyerrors_code(rc, why);
    }
    Py_XDECREF(holder);
    Py_XDECREF(held);
    return store;
}
