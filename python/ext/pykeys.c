#include <string.h>

#include "base/mem.h"
#include "pysherd.h"

static int refuse(PyObject *object)
{
    PyObject *repr = PyObject_Repr((PyObject *)Py_TYPE(object));
    PyObject *text = repr ? PyUnicode_FromFormat("a key is int, str or bytes, not %U", repr) : NULL;
    PyObject *utf8 = text ? PyUnicode_AsUTF8String(text) : NULL;
    if (utf8) pyerrors_class("InvalidKeyError", PyBytes_AsString(utf8));
    Py_XDECREF(utf8);
    Py_XDECREF(text);
    Py_XDECREF(repr);
    return -1;
}

static int integer(PyObject *number, struct snapkey *key)
{
    int overflow;
    long long i = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow == 0) {
        if (i == -1 && PyErr_Occurred()) return -1;
        *key = snapkey_int(i);
        return 0;
    }
    unsigned long long u = overflow > 0 ? PyLong_AsUnsignedLongLong(number) : 0;
    if (overflow > 0 && !PyErr_Occurred()) {
        *key = snapkey_uint(u);
        return 0;
    }
    PyErr_Clear();
    pyerrors_class("InvalidKeyError", "an integer key lies between -2^63 and 2^64 - 1");
    return -1;
}

static int held_bytes(PyObject *bytes, struct slice *s)
{
    char *p;
    Py_ssize_t n;
    if (!bytes || PyBytes_AsStringAndSize(bytes, &p, &n) != 0) return -1;
    *s = slice_of(p, (size_t)n);
    return 0;
}

/* Python's own message of a str with lone surrogates becomes ours. */
static int text(PyObject *object, struct snapkey *key, PyObject **holder)
{
    *holder = PyUnicode_AsUTF8String(object);
    *key = snapkey_text((struct slice){0});
    if (*holder) return held_bytes(*holder, &key->s);
    if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        pyerrors_class("InvalidKeyError", "a text key with a lone surrogate has no UTF-8 form");
    }
    return -1;
}

int pykeys_one(PyObject *object, struct snapkey *key, PyObject **holder)
{
    *holder = NULL;
    if (PyLong_Check(object)) return integer(object, key);
    if (PyUnicode_Check(object)) return text(object, key, holder);
    if (PyBytes_Check(object)) {
        Py_INCREF(object);
        *holder = object;
    } else if (PyByteArray_Check(object) || PyMemoryView_Check(object)) {
        *holder = PyBytes_FromObject(object);
    } else if (PyIndex_Check(object)) {
        PyObject *number = PyNumber_Index(object);
        int rc = number ? integer(number, key) : -1;
        Py_XDECREF(number);
        return rc;
    } else {
        return refuse(object);
    }
    *key = snapkey_bytes((struct slice){0});
    return held_bytes(*holder, &key->s);
}

PyObject *pykeys_to_python(const struct snapkey *key)
{
    switch (key->kind) {
    case SNAPKEY_INT: return PyLong_FromLongLong(key->i);
    case SNAPKEY_UINT: return PyLong_FromUnsignedLongLong(key->u);
    case SNAPKEY_TEXT: return PyUnicode_DecodeUTF8(key->s.p, (Py_ssize_t)key->s.n, NULL);
    default: return PyBytes_FromStringAndSize(key->s.p, (Py_ssize_t)key->s.n);
    }
}

static int from_numbers(struct pykeys *k, PyObject *bytes)
{
    struct slice s;
    if (held_bytes(bytes, &s) != 0) return -1;
    k->n = s.n / sizeof(int64_t);
    k->keys = mem_alloc((k->n + 1) * sizeof *k->keys);
    for (size_t i = 0; i < k->n; i++) {
        int64_t v;
        memcpy(&v, s.p + i * sizeof v, sizeof v);
        k->keys[i] = snapkey_int(v);
    }
    return 0;
}

/* The list is a copy of the caller's, whose own may change while the GIL is released; each item is replaced by what its key points into. */
static int from_list(struct pykeys *k)
{
    k->n = (size_t)PyList_Size(k->held);
    k->keys = mem_alloc((k->n + 1) * sizeof *k->keys);
    for (size_t i = 0; i < k->n; i++) {
        PyObject *holder;
        if (pykeys_one(PyList_GetItem(k->held, (Py_ssize_t)i), &k->keys[i], &holder) != 0) {
            Py_XDECREF(holder);
            return -1;
        }
        if (holder && PyList_SetItem(k->held, (Py_ssize_t)i, holder) != 0) return -1;
    }
    return 0;
}

int pykeys_init(struct pykeys *k, PyObject *objects)
{
    *k = (struct pykeys){0};
    if (PyBytes_Check(objects)) return from_numbers(k, objects);
    k->held = PySequence_List(objects);
    return k->held ? from_list(k) : -1;
}

void pykeys_fini(struct pykeys *k)
{
    mem_free(k->keys);
    Py_XDECREF(k->held);
}
