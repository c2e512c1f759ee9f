/* _sherd.Router: the router of src/route/ for whole columns of keys at a time. sherd/router.py has the class that users see. */
#include <string.h>

#include "base/mem.h"
#include "cel/utf8.h"
#include "pysherd.h"

struct router_object {
    PyObject_HEAD
    struct router *router;
};

/* ---- columns of the routing context */

struct column {
    struct cel_value *values;
    bool constant; /* one value for all rows */
    PyObject *held;
};

static enum cel_kind kind_of(struct slice type)
{
    if (slice_eq(type, SLICE("int"))) return CEL_INT;
    if (slice_eq(type, SLICE("uint"))) return CEL_UINT;
    if (slice_eq(type, SLICE("double"))) return CEL_DOUBLE;
    if (slice_eq(type, SLICE("bool"))) return CEL_BOOL;
    return slice_eq(type, SLICE("string")) ? CEL_STRING : CEL_BYTES;
}

/* What a Python object is as a value of the column's kind; false: it is none. *holder as in pykeys_one. */
static bool convert(PyObject *object, enum cel_kind kind, struct cel_value *v, PyObject **holder)
{
    struct snapkey k;
    v->kind = kind;
    *holder = NULL;
    if (kind == CEL_DOUBLE) {
        v->real = PyFloat_AsDouble(object);
        return !PyErr_Occurred();
    }
    if (kind == CEL_BOOL) {
        int truth = PyUnicode_Check(object) || PyBytes_Check(object) ? -1 : PyObject_IsTrue(object);
        v->boolean = truth == 1;
        return truth >= 0;
    }
    if (pykeys_one(object, &k, holder) != 0) return false;
    bool is_text = k.kind == SNAPKEY_TEXT || k.kind == SNAPKEY_BYTES;
    switch (kind) {
    case CEL_INT: v->integer = k.i; return k.kind == SNAPKEY_INT;
    case CEL_UINT: v->natural = k.u; return k.kind == SNAPKEY_UINT || (k.kind == SNAPKEY_INT && k.i >= 0);
    case CEL_STRING: v->text = k.s; return is_text && (k.kind == SNAPKEY_TEXT || utf8_valid(k.s));
    default: v->text = k.s; return is_text;
    }
}

static int refuse_value(const struct router *r, uint32_t column)
{
    struct slice name = router_column_name(r, column), type = router_column_type(r, column);
    char text[200];
    snprintf(text, sizeof text, "routing column %.*s: a value is no %.*s", (int)(name.n < 100 ? name.n : 100), name.p, (int)type.n, type.p);
    PyErr_Clear();
    pyerrors_class("RoutingError", text);
    return -1;
}

static int fill_column(const struct router *r, uint32_t index, struct column *c, size_t n)
{
    enum cel_kind kind = kind_of(router_column_type(r, index));
    c->values = mem_alloc((n + 1) * sizeof *c->values);
    for (size_t i = 0; i < n; i++) {
        PyObject *holder;
        bool ok = convert(PyList_GetItem(c->held, (Py_ssize_t)i), kind, &c->values[i], &holder);
        if (holder && PyList_SetItem(c->held, (Py_ssize_t)i, holder) != 0) return -1;
        if (!ok) return refuse_value(r, index);
    }
    return 0;
}

/* A tuple of one value is a constant, anything else a sequence of n values. */
static int read_column(const struct router *r, uint32_t index, PyObject *given, struct column *c, size_t n)
{
    c->constant = PyTuple_Check(given);
    c->held = PySequence_List(given);
    if (!c->held) return -1;
    size_t size = (size_t)PyList_Size(c->held);
    if (size == (c->constant ? 1 : n)) return fill_column(r, index, c, size);
    pyerrors_class("RoutingError", "a routing column has not as many values as there are keys");
    return -1;
}

static void free_columns(struct column *columns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        mem_free(columns[i].values);
        Py_XDECREF(columns[i].held);
    }
    mem_free(columns);
}

/* ---- a batch: keys, columns, scratch */

struct batch {
    const struct router *router;
    struct pykeys keys;
    struct column *columns; /* NULL: the key is enough */
    uint32_t n_columns;
    size_t n;
    struct router_scratch scratch;
};

static void batch_fini(struct batch *b)
{
    router_scratch_fini(&b->scratch);
    free_columns(b->columns, b->n_columns);
    pykeys_fini(&b->keys);
}

static int read_columns(struct batch *b, PyObject *given)
{
    b->n_columns = router_columns(b->router);
    b->columns = mem_zalloc(b->n_columns * sizeof *b->columns);
    for (uint32_t i = 0; i < b->n_columns; i++) {
        PyObject *column = PySequence_GetItem(given, (Py_ssize_t)i);
        int rc = column ? read_column(b->router, i, column, &b->columns[i], b->n) : -1;
        Py_XDECREF(column);
        if (rc != 0) return -1;
    }
    return 0;
}

/* args: keys or None, columns or None, number of rows. Keys are not needed where the columns say all. */
static int batch_init(struct batch *b, const struct router *r, PyObject *args)
{
    PyObject *keys, *columns;
    Py_ssize_t n;
    *b = (struct batch){.router = r};
    router_scratch_init(&b->scratch, r);
    if (!PyArg_ParseTuple(args, "OOn", &keys, &columns, &n)) return -1;
    b->n = (size_t)n;
    if (router_needs_context(r)) {
        if (columns != Py_None) return read_columns(b, columns);
        pyerrors_class("RoutingError", "the routing expression needs columns besides the key: give them as context");
        return -1;
    }
    if (pykeys_init(&b->keys, keys) != 0) return -1;
    b->n = b->keys.n;
    return 0;
}

static const struct snapkey *batch_row(struct batch *b, size_t i)
{
    for (uint32_t c = 0; c < b->n_columns; c++) b->scratch.values[c] = b->columns[c].values[b->columns[c].constant ? 0 : i];
    return b->columns ? NULL : &b->keys.keys[i];
}

static PyObject *raise_routing(const struct batch *b, size_t row)
{
    char text[400];
    snprintf(text, sizeof text, "row %zu: %.*s", row, (int)(b->scratch.why.len < 350 ? b->scratch.why.len : 350), b->scratch.why.p);
    return pyerrors_class("RoutingError", text);
}

/* ---- methods */

static size_t route_all(struct batch *b, int32_t *shards)
{
    for (size_t i = 0; i < b->n; i++) {
        uint32_t shard;
        enum router_result rc = router_shard(b->router, &b->scratch, batch_row(b, i), &shard);
        if (rc == ROUTER_ERROR) return i;
        shards[i] = rc == ROUTER_FOUND ? (int32_t)shard : -1;
    }
    return b->n;
}

static PyObject *route_batch(struct batch *b)
{
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(b->n * sizeof(int32_t)));
    if (!result) return NULL;
    int32_t *shards = (int32_t *)(void *)PyBytes_AsString(result);
    size_t done;
    Py_BEGIN_ALLOW_THREADS
    done = route_all(b, shards);
    Py_END_ALLOW_THREADS
    if (done == b->n) return result;
    Py_DECREF(result);
    return raise_routing(b, done);
}

static PyObject *router_route(PyObject *self, PyObject *args)
{
    struct batch b;
    PyObject *result = batch_init(&b, ((struct router_object *)(void *)self)->router, args) == 0 ? route_batch(&b) : NULL;
    batch_fini(&b);
    return result;
}

static PyObject *token_of_row(struct batch *b, size_t i)
{
    struct router_token t;
    switch (router_token(b->router, &b->scratch, batch_row(b, i), &t)) {
    case ROUTER_FOUND: return t.is_text ? PyUnicode_DecodeUTF8(t.text.p, (Py_ssize_t)t.text.n, NULL) : PyLong_FromLongLong(t.i);
    case ROUTER_UNKNOWN: return pyerrors_class("RoutingError", "the routing expression gave a number above 2^63 - 1");
    default: return raise_routing(b, i);
    }
}

static PyObject *tokens_of(struct batch *b)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < b->n; i++) {
        PyObject *token = token_of_row(b, i);
        if (!token || PyList_Append(list, token) != 0) Py_CLEAR(list);
        Py_XDECREF(token);
    }
    return list;
}

static PyObject *router_tokens(PyObject *self, PyObject *args)
{
    struct batch b;
    PyObject *result = batch_init(&b, ((struct router_object *)(void *)self)->router, args) == 0 ? tokens_of(&b) : NULL;
    batch_fini(&b);
    return result;
}

static PyObject *router_needs(PyObject *self, PyObject *unused)
{
    return PyBool_FromLong(router_needs_context(((struct router_object *)(void *)self)->router));
}

/* ---- making */

static struct router *new_cel(const struct router_cel *c, uint32_t shards)
{
    struct buf why = {0};
    struct router *r = router_new_cel(c, shards, &why);
    buf_add_byte(&why, '\0');
    if (!r) pyerrors_class("ConfigError", why.p);
    buf_fini(&why);
    return r;
}

static struct router *make(uint32_t shards, PyObject *expr, PyObject *names, PyObject *types, PyObject *tokens)
{
    struct pycel p;
    struct router *r = pycel_init(&p, expr, names, types, tokens) == 0 ? new_cel(&p.cel, shards) : NULL;
    pycel_fini(&p);
    return r;
}

static int router_init(PyObject *self, PyObject *args, PyObject *unused)
{
    struct router_object *o = (struct router_object *)(void *)self;
    unsigned int shards;
    PyObject *expr = Py_None, *names = NULL, *types = NULL, *tokens = Py_None;
    if (!PyArg_ParseTuple(args, "I|OO!O!O", &shards, &expr, &PyList_Type, &names, &PyList_Type, &types, &tokens)) return -1;
    struct router *r = expr == Py_None ? router_new_hash(shards ? shards : 1) : make(shards, expr, names, types, tokens);
    if (!r) return -1;
    router_free(o->router);
    o->router = r;
    return 0;
}

static void router_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    router_free(((struct router_object *)(void *)self)->router);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *pyrouter_type(void)
{
    static PyMethodDef methods[] = {
        {"route", router_route, METH_VARARGS, "route(keys, columns, n) -> bytes of int32: the shard of each row, -1 where there is none."},
        {"tokens", router_tokens, METH_VARARGS, "tokens(keys, columns, n) -> list: what the expression gives for each row."},
        {"needs_context", router_needs, METH_NOARGS, "needs_context() -> bool: the expression has columns besides the key."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, (void *)router_init}, {Py_tp_dealloc, (void *)router_dealloc}, {Py_tp_methods, methods}, {Py_tp_doc, (char *)"Router(shards, expr, names, types, tokens)"}, {0},
    };
    static PyType_Spec spec = {"sherd._sherd.Router", sizeof(struct router_object), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}
