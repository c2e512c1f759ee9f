#include <string.h>

#include "base/err.h"
#include "pysherd.h"

/* The exceptions are made by sherd/errors.py, which is imported when one is needed: a module without state of its own has no reference to keep. */
static PyObject *raise_made(PyObject *made)
{
    if (!made) return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_DECREF(made);
    return NULL;
}

/* What was tried, and behind it what the code means, unless the text says so itself. */
PyObject *pyerrors_code(int code, const char *text)
{
    const char *meaning = err_text(code);
    bool whole = text && *text, told = whole && strstr(text, meaning);
    PyObject *errors = PyImport_ImportModule("sherd.errors");
    PyObject *message = errors ? PyUnicode_FromFormat("%s%s%s", whole ? text : "", whole && !told ? ": " : "", told ? "" : meaning) : NULL;
    PyObject *made = message ? PyObject_CallMethod(errors, "_from_code", "siO", err_name(code), code, message) : NULL;
    Py_XDECREF(message);
    Py_XDECREF(errors);
    return raise_made(made);
}

PyObject *pyerrors_class(const char *name, const char *text)
{
    PyObject *errors = PyImport_ImportModule("sherd.errors");
    if (!errors) return NULL;
    PyObject *made = PyObject_CallMethod(errors, name, "s", text);
    Py_DECREF(errors);
    return raise_made(made);
}
