#include "base/mem.h"
#include "pysherd.h"

static int read_text(struct pycel *p, PyObject *object, struct slice *s)
{
    PyObject *holder;
    s->p = pytext_of(object, &holder, &s->n);
    if (!s->p) return -1;
    int rc = PyList_Append(p->held, holder);
    Py_DECREF(holder);
    return rc;
}

static int read_columns(struct pycel *p, PyObject *names, PyObject *types)
{
    Py_ssize_t n = PyList_Size(names);
    if (n < 0 || PyList_Size(types) != n) return -1;
    p->columns = mem_zalloc((size_t)(n + 1) * sizeof *p->columns);
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_text(p, PyList_GetItem(names, i), &p->columns[i].name) != 0 || read_text(p, PyList_GetItem(types, i), &p->columns[i].type) != 0) return -1;
    p->cel.columns = p->columns;
    p->cel.n_columns = (uint32_t)n;
    return 0;
}

static int read_token(struct pycel *p, PyObject *token, bool is_text, Py_ssize_t i)
{
    if (is_text) return read_text(p, token, &p->texts[i]);
    p->ints[i] = PyLong_AsLongLong(token);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_tokens(struct pycel *p, PyObject *tokens)
{
    if (tokens == Py_None) return 0;
    Py_ssize_t n = PyList_Size(tokens);
    if (n < 0) return -1;
    bool is_text = n == 0 || PyUnicode_Check(PyList_GetItem(tokens, 0));
    p->ints = mem_zalloc((size_t)(n + 1) * sizeof *p->ints);
    p->texts = mem_zalloc((size_t)(n + 1) * sizeof *p->texts);
    for (Py_ssize_t i = 0; i < n; i++)
        if (read_token(p, PyList_GetItem(tokens, i), is_text, i) != 0) return -1;
    p->cel.tokens = is_text ? ROUTER_TOKENS_TEXT : ROUTER_TOKENS_INT;
    p->cel.n_tokens = (uint32_t)n;
    p->cel.ints = p->ints;
    p->cel.texts = p->texts;
    return 0;
}

int pycel_init(struct pycel *p, PyObject *expr, PyObject *names, PyObject *types, PyObject *tokens)
{
    *p = (struct pycel){.held = PyList_New(0)};
    if (!p->held || read_text(p, expr, &p->cel.expr) != 0 || read_columns(p, names, types) != 0) return -1;
    return read_tokens(p, tokens);
}

void pycel_fini(struct pycel *p)
{
    mem_free(p->columns);
    mem_free(p->ints);
    mem_free(p->texts);
    Py_XDECREF(p->held);
}
