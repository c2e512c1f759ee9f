/* _sherd.Reader and its cursor: libsherd's reader (include/sherd.h) for Python. Any number of threads may use one reader; the GIL is released while they read.
 *
 * close() may come while other threads are reading or hold cursors: the object counts its users, and the last one out closes the C reader. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "pysherd.h"
#include "sherd.h"

struct reader_object {
    PyObject_HEAD
    struct sherd_reader *reader; /* NULL: closed */
    size_t users;                /* calls and cursors; changed with the GIL held */
    bool closing;
};

struct cursor_object {
    PyObject_HEAD
    struct reader_object *owner; /* one of its users; NULL: the scan is over */
    struct sherd_cursor *cursor;
    bool busy;
};

static struct reader_object *reader_of(PyObject *self) { return (struct reader_object *)(void *)self; }

static PyObject *raise_why(const struct sherd_error *why) { return pyerrors_code(why->code, why->text); }

static struct sherd_reader *enter(struct reader_object *o)
{
    if (!o->reader || o->closing) {
        pyerrors_class("ReaderClosedError", "the reader is closed");
        return NULL;
    }
    o->users++;
    return o->reader;
}

static void leave(struct reader_object *o)
{
    o->users--;
    if (o->users || !o->closing || !o->reader) return;
    struct sherd_reader *reader = o->reader;
    o->reader = NULL;
    Py_BEGIN_ALLOW_THREADS
    sherd_reader_close(reader);
    Py_END_ALLOW_THREADS
}

static PyObject *reader_close(PyObject *self, PyObject *unused)
{
    struct reader_object *o = reader_of(self);
    o->closing = true;
    o->users++;
    leave(o);
    Py_RETURN_NONE;
}

/* ---- keys and context */

static int key_for_c(const struct snapkey *k, struct sherd_key *out)
{
    switch (k->kind) {
    case SNAPKEY_INT:
    case SNAPKEY_UINT:
        if (k->kind == SNAPKEY_INT && k->i < 0) {
            pyerrors_class("InvalidKeyError", "the key is negative: stored integers are not");
            return -1;
        }
        *out = sherd_key_int(k->u);
        return 0;
    case SNAPKEY_TEXT: *out = sherd_key_text(k->s.p, k->s.n); return 0;
    default: *out = sherd_key_bytes(k->s.p, k->s.n); return 0;
    }
}

static PyObject *key_to_python(const struct sherd_key *k)
{
    struct slice s = slice_of(k->data, k->size);
    struct snapkey key = k->kind == SHERD_KEY_INT ? snapkey_uint(k->number) : k->kind == SHERD_KEY_TEXT ? snapkey_text(s) : snapkey_bytes(s);
    return pykeys_to_python(&key);
}

struct context {
    struct sherd_context c;
    const char **names, **values;
    PyObject *held;
};

/* A value as CEL writes it: str and bytes as they are, true and false, numbers. */
static const char *context_text(PyObject *object, PyObject *held)
{
    PyObject *text = PyBool_Check(object)   ? PyUnicode_FromString(object == Py_True ? "true" : "false")
                     : PyBytes_Check(object) ? PyUnicode_FromEncodedObject(object, "utf-8", "strict")
                                             : PyObject_Str(object);
    PyObject *holder = NULL;
    const char *p = text ? pytext_of(text, &holder, NULL) : NULL;
    if (p && PyList_Append(held, holder) != 0) p = NULL;
    Py_XDECREF(holder);
    Py_XDECREF(text);
    return p;
}

static int fill_context(struct context *c, PyObject *pairs)
{
    Py_ssize_t n = PyList_Size(pairs);
    c->names = mem_zalloc((size_t)(n + 1) * sizeof *c->names);
    c->values = mem_zalloc((size_t)(n + 1) * sizeof *c->values);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *name, *value;
        if (!PyArg_ParseTuple(PyList_GetItem(pairs, i), "OO", &name, &value)) return -1;
        c->names[i] = context_text(name, c->held);
        c->values[i] = context_text(value, c->held);
        if (!c->names[i] || !c->values[i]) return -1;
    }
    c->c = (struct sherd_context){c->names, c->values, (size_t)n};
    return 0;
}

static int context_init(struct context *c, PyObject *mapping)
{
    *c = (struct context){0};
    if (mapping == Py_None) return 0;
    PyObject *items = PyMapping_Items(mapping);
    c->held = PyList_New(0);
    int rc = items && c->held ? fill_context(c, items) : -1;
    Py_XDECREF(items);
    return rc;
}

static void context_fini(struct context *c)
{
    mem_free(c->names);
    mem_free(c->values);
    Py_XDECREF(c->held);
}

static const struct sherd_context *context_of(const struct context *c) { return c->names ? &c->c : NULL; }

/* ---- one key */

struct lookup {
    struct sherd_key key;
    struct context context;
    PyObject *holder;
};

static int lookup_init(struct lookup *l, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {(char *)"key", (char *)"context", NULL};
    struct snapkey k;
    PyObject *key, *context = Py_None;
    *l = (struct lookup){0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O", names, &key, &context)) return -1;
    if (pykeys_one(key, &k, &l->holder) != 0 || key_for_c(&k, &l->key) != 0) return -1;
    return context_init(&l->context, context);
}

static void lookup_fini(struct lookup *l)
{
    context_fini(&l->context);
    Py_XDECREF(l->holder);
}

static PyObject *get_found(struct reader_object *o, const struct lookup *l)
{
    struct sherd_reader *reader = enter(o);
    struct sherd_value value = {0};
    struct sherd_error why = {0};
    PyObject *result = NULL;
    int rc;
    if (!reader) return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = sherd_reader_get(reader, &l->key, context_of(&l->context), &value, &why);
    Py_END_ALLOW_THREADS
    leave(o);
    if (rc == 1) result = PyBytes_FromStringAndSize(value.data, (Py_ssize_t)value.size);
    else if (rc < 0) raise_why(&why);
    sherd_value_free(&value);
    if (rc != 0) return result;
    Py_RETURN_NONE;
}

static PyObject *reader_get(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct lookup l;
    PyObject *result = lookup_init(&l, args, kwargs) == 0 ? get_found(reader_of(self), &l) : NULL;
    lookup_fini(&l);
    return result;
}

static PyObject *route_found(struct reader_object *o, const struct lookup *l)
{
    struct sherd_reader *reader = enter(o);
    struct sherd_error why = {0};
    int64_t shard;
    if (!reader) return NULL;
    Py_BEGIN_ALLOW_THREADS
    shard = sherd_reader_route(reader, &l->key, context_of(&l->context), &why);
    Py_END_ALLOW_THREADS
    leave(o);
    if (shard >= 0) return PyLong_FromLongLong(shard);
    return shard == -1 ? pyerrors_class("UnknownTokenError", "the routing expression names no shard of this snapshot") : raise_why(&why);
}

static PyObject *reader_route(PyObject *self, PyObject *args, PyObject *kwargs)
{
    struct lookup l;
    PyObject *result = lookup_init(&l, args, kwargs) == 0 ? route_found(reader_of(self), &l) : NULL;
    lookup_fini(&l);
    return result;
}

/* ---- many keys */

static PyObject *batch_value(const struct sherd_batch *batch, size_t i)
{
    const void *data;
    size_t size;
    if (sherd_batch_get(batch, i, &data, &size)) return PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
    Py_RETURN_NONE;
}

static PyObject *batch_list(const struct sherd_batch *batch, size_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *value = batch_value(batch, i);
        if (!value || PyList_SetItem(list, (Py_ssize_t)i, value) != 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_batch(struct reader_object *o, const struct sherd_key *keys, size_t n, const struct context *context)
{
    struct sherd_reader *reader = enter(o);
    struct sherd_batch *batch;
    struct sherd_error why = {0};
    if (!reader) return NULL;
    Py_BEGIN_ALLOW_THREADS
    batch = sherd_reader_multi_get(reader, keys, n, context_of(context), &why);
    Py_END_ALLOW_THREADS
    PyObject *result = batch ? batch_list(batch, n) : raise_why(&why);
    sherd_batch_free(batch);
    leave(o);
    return result;
}

static PyObject *get_keys(struct reader_object *o, const struct pykeys *keys, PyObject *mapping)
{
    struct context context;
    struct sherd_key *c_keys = mem_alloc((keys->n + 1) * sizeof *c_keys);
    PyObject *result = NULL;
    size_t i = 0;
    while (i < keys->n && key_for_c(&keys->keys[i], &c_keys[i]) == 0) i++;
    if (i == keys->n) {
        if (context_init(&context, mapping) == 0) result = get_batch(o, c_keys, keys->n, &context);
        context_fini(&context);
    }
    mem_free(c_keys);
    return result;
}

static PyObject *reader_get_list(PyObject *self, PyObject *args)
{
    struct pykeys keys;
    PyObject *objects, *context;
    if (!PyArg_ParseTuple(args, "OO", &objects, &context)) return NULL;
    PyObject *result = pykeys_init(&keys, objects) == 0 ? get_keys(reader_of(self), &keys, context) : NULL;
    pykeys_fini(&keys);
    return result;
}

/* ---- scanning */

static void cursor_end(struct cursor_object *c)
{
    struct reader_object *owner = c->owner;
    if (!owner) return;
    c->owner = NULL;
    sherd_cursor_close(c->cursor);
    leave(owner);
    Py_DECREF((PyObject *)owner);
}

static PyObject *cursor_next(PyObject *self)
{
    struct cursor_object *c = (struct cursor_object *)(void *)self;
    struct sherd_key key;
    struct sherd_error why = {0};
    const void *data;
    size_t size;
    int rc;
    if (!c->owner) return NULL;
    if (c->busy) return pyerrors_class("SherdError", "another thread is using this scan");
    c->busy = true;
    Py_BEGIN_ALLOW_THREADS
    rc = sherd_cursor_next(c->cursor, &key, &data, &size, &why);
    Py_END_ALLOW_THREADS
    c->busy = false;
    if (rc == 1) return Py_BuildValue("Ny#", key_to_python(&key), data, (Py_ssize_t)size);
    cursor_end(c);
    return rc < 0 ? raise_why(&why) : NULL;
}

static PyObject *cursor_close(PyObject *self, PyObject *unused)
{
    struct cursor_object *c = (struct cursor_object *)(void *)self;
    if (c->busy) return pyerrors_class("SherdError", "another thread is using this scan");
    cursor_end(c);
    Py_RETURN_NONE;
}

static void cursor_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    cursor_end((struct cursor_object *)(void *)self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* The three keys of a range, any of them None. */
struct bounds {
    struct sherd_key keys[3];
    const struct sherd_key *set[3];
    PyObject *holders[3];
};

static int bounds_init(struct bounds *b, PyObject *const objects[3])
{
    *b = (struct bounds){0};
    for (int i = 0; i < 3; i++) {
        struct snapkey k;
        if (objects[i] == Py_None) continue;
        if (pykeys_one(objects[i], &k, &b->holders[i]) != 0 || key_for_c(&k, &b->keys[i]) != 0) return -1;
        b->set[i] = &b->keys[i];
    }
    return 0;
}

static PyObject *scan_range(struct reader_object *o, PyTypeObject *cursor_type, const struct sherd_range *range)
{
    struct sherd_reader *reader = enter(o);
    struct sherd_error why = {0};
    struct sherd_cursor *cursor;
    if (!reader) return NULL;
    Py_BEGIN_ALLOW_THREADS
    cursor = sherd_reader_scan(reader, range, &why);
    Py_END_ALLOW_THREADS
    struct cursor_object *c = cursor ? (struct cursor_object *)(void *)PyType_GenericAlloc(cursor_type, 0) : NULL;
    if (!c) {
        sherd_cursor_close(cursor);
        leave(o);
        return cursor ? NULL : raise_why(&why);
    }
    Py_INCREF((PyObject *)o);
    c->owner = o;
    c->cursor = cursor;
    return (PyObject *)c;
}

static PyObject *reader_open_scan(PyObject *self, PyObject *args)
{
    PyObject *objects[3], *type;
    int after_start, with_end, reverse;
    long long shard;
    struct bounds b;
    if (!PyArg_ParseTuple(args, "OOOOpppL", &type, &objects[0], &objects[1], &objects[2], &after_start, &with_end, &reverse, &shard)) return NULL;
    PyObject *result = NULL;
    if (bounds_init(&b, objects) == 0) {
        struct sherd_range range = {sizeof range, b.set[0], b.set[1], after_start, with_end, b.set[2], reverse, shard >= 0, shard >= 0 ? (uint32_t)shard : 0};
        result = scan_range(reader_of(self), (PyTypeObject *)(void *)type, &range);
    }
    for (int i = 0; i < 3; i++) Py_XDECREF(b.holders[i]);
    return result;
}

/* ---- switching */

static PyObject *switched(struct reader_object *o, const struct sherd_pin *pin)
{
    struct sherd_reader *reader = enter(o);
    struct sherd_error why = {0};
    int rc;
    if (!reader) return NULL;
    Py_BEGIN_ALLOW_THREADS
    rc = pin ? sherd_reader_use(reader, pin, &why) : sherd_reader_refresh(reader, &why);
    Py_END_ALLOW_THREADS
    leave(o);
    return rc < 0 ? raise_why(&why) : PyBool_FromLong(rc == SHERD_SWITCHED);
}

static PyObject *reader_refresh(PyObject *self, PyObject *unused) { return switched(reader_of(self), NULL); }

static PyObject *reader_use(PyObject *self, PyObject *args)
{
    struct sherd_pin pin = {0};
    int by_offset;
    if (!PyArg_ParseTuple(args, "zzpI", &pin.ref, &pin.run_id, &by_offset, &pin.offset)) return NULL;
    pin.by_offset = by_offset;
    return switched(reader_of(self), &pin);
}

/* ---- what is read */

static const char *mode_name(enum sherd_mode mode) { return mode == SHERD_RANGE ? "range" : "download"; }

static PyObject *reader_info(PyObject *self, PyObject *unused)
{
    struct reader_object *o = reader_of(self);
    struct sherd_reader *reader = enter(o);
    struct sherd_info i = {.size = sizeof i};
    struct sherd_error why = {0};
    if (!reader) return NULL;
    int rc = sherd_reader_info(reader, &i, &why);
    leave(o);
    if (rc < 0) return raise_why(&why);
    PyObject *result = Py_BuildValue("{s:s,s:s,s:s,s:s,s:z,s:s,s:s,s:I,s:I,s:K,s:K,s:O,s:O,s:s,s:s}", "run_id", i.run_id, "manifest_ref", i.manifest_ref, "created_at", i.created_at,
                                     "sharding", i.sharding, "cel_expr", i.cel_expr, "key_encoding", i.key_encoding, "hash_algorithm", i.hash_algorithm, "num_dbs", i.num_dbs,
                                     "shards_open", i.shards_open, "row_count", (unsigned long long)i.row_count, "db_bytes", (unsigned long long)i.db_bytes, "pinned",
                                     i.pinned ? Py_True : Py_False, "fell_back", i.fell_back ? Py_True : Py_False, "mode", mode_name(i.mode), "custom", i.custom);
    sherd_info_free(&i);
    return result;
}

static PyObject *shard_dict(const struct sherd_shard *s)
{
    return Py_BuildValue("{s:I,s:O,s:K,s:K,s:z,s:z,s:z,s:z,s:z}", "db_id", s->db_id, "open", s->open ? Py_True : Py_False, "row_count", (unsigned long long)s->row_count, "db_bytes",
                         (unsigned long long)s->db_bytes, "db_url", s->db_url, "min_key", s->min_key, "max_key", s->max_key, "checkpoint_id", s->checkpoint_id, "sha256", s->sha256);
}

static PyObject *reader_shards(PyObject *self, PyObject *unused)
{
    struct reader_object *o = reader_of(self);
    struct sherd_reader *reader = enter(o);
    struct sherd_shard *shards;
    struct sherd_error why = {0};
    size_t n = 0;
    if (!reader) return NULL;
    int rc = sherd_reader_shards(reader, &shards, &n, &why);
    leave(o);
    if (rc < 0) return raise_why(&why);
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *dict = shard_dict(&shards[i]);
        if (!dict || PyList_Append(list, dict) != 0) Py_CLEAR(list);
        Py_XDECREF(dict);
    }
    sherd_shards_free(shards, n);
    return list;
}

static PyObject *reader_health(PyObject *self, PyObject *args)
{
    static const char *const names[] = {"healthy", "degraded", "unhealthy"};
    struct reader_object *o = reader_of(self);
    struct sherd_health h = {.size = sizeof h};
    struct sherd_error why = {0};
    double staleness;
    if (!PyArg_ParseTuple(args, "d", &staleness)) return NULL;
    struct sherd_reader *reader = enter(o);
    if (!reader) return NULL;
    int rc = sherd_reader_health(reader, staleness, &h, &why);
    leave(o);
    if (rc < 0) return raise_why(&why);
    return Py_BuildValue("{s:s,s:d,s:d,s:I,s:s,s:s}", "status", names[h.status], "age_seconds", h.age_seconds, "unchecked_seconds", h.unchecked_seconds, "num_shards", h.num_shards,
                         "manifest_ref", h.manifest_ref, "reason", h.reason);
}

static PyObject *reader_stats(PyObject *self, PyObject *unused)
{
    struct reader_object *o = reader_of(self);
    struct sherd_reader *reader = enter(o);
    struct sherd_stats s = {.size = sizeof s};
    if (!reader) return NULL;
    sherd_reader_stats(reader, &s);
    leave(o);
    const struct {
        const char *name;
        uint64_t value;
    } rows[] = {
        {"gets", s.gets}, {"keys", s.keys}, {"hits", s.hits}, {"requests", s.requests}, {"request_bytes", s.request_bytes}, {"page_hits", s.page_hits}, {"page_misses", s.page_misses},
        {"downloads", s.downloads}, {"cache_reuses", s.cache_reuses}, {"refreshes", s.refreshes}, {"switches", s.switches}, {"kept", s.kept},
    };
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < sizeof rows / sizeof *rows; i++) {
        PyObject *value = PyLong_FromUnsignedLongLong(rows[i].value);
        if (!value || PyDict_SetItemString(dict, rows[i].name, value) != 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

/* ---- opening */

static enum sherd_mode mode_of(const char *name)
{
    if (name && strcmp(name, "download") == 0) return SHERD_DOWNLOAD;
    return name && strcmp(name, "range") == 0 ? SHERD_RANGE : SHERD_AUTO;
}

static int read_options(PyObject *dict, PyObject *held, struct sherd_options *o)
{
    struct object_options store;
    if (pystore_options(dict, held, &store) != 0) return -1;
    *o = (struct sherd_options){
        .size = sizeof *o,
        .mode = mode_of(pytext_option(dict, "mode", held)),
        .cache_dir = pytext_option(dict, "cache_dir", held),
        .cache_bytes = (uint64_t)pytext_number(dict, "cache_bytes"),
        .page_cache_bytes = (uint64_t)pytext_number(dict, "page_cache_bytes"),
        .auto_shard_bytes = (uint64_t)pytext_number(dict, "auto_shard_bytes"),
        .auto_total_bytes = (uint64_t)pytext_number(dict, "auto_total_bytes"),
        .parallel = (uint32_t)pytext_number(dict, "parallel"),
        .fallback_attempts = (uint32_t)pytext_number(dict, "fallback_attempts"),
        .no_fallback = pytext_number(dict, "no_fallback") > 0,
        .open_all = pytext_number(dict, "open_all") > 0,
        .pin = {pytext_option(dict, "ref", held), pytext_option(dict, "run_id", held), pytext_number(dict, "by_offset") > 0, (uint32_t)pytext_number(dict, "offset")},
        .endpoint = store.endpoint,
        .region = store.region,
        .access_key = store.access_key,
        .secret_key = store.secret_key,
        .session_token = store.session_token,
        .profile = store.profile,
        .ca_file = store.ca_file,
        .path_style = (int)store.style,
        .anonymous = store.anonymous,
        .insecure_tls = store.insecure_tls,
        .attempts_max = store.attempts_max,
        .connect_timeout_ms = store.connect_timeout_ms,
        .stall_timeout_ms = store.stall_timeout_ms,
    };
    return PyErr_Occurred() ? -1 : 0;
}

static struct sherd_reader *open_reader(PyObject *url, PyObject *dict, PyObject *held)
{
    struct sherd_options options;
    struct sherd_error why = {0};
    struct sherd_reader *reader = NULL;
    PyObject *holder = NULL;
    const char *at = read_options(dict, held, &options) == 0 ? pytext_of(url, &holder, NULL) : NULL;
    if (!at) return NULL;
    Py_BEGIN_ALLOW_THREADS
    reader = sherd_reader_open(at, &options, &why);
    Py_END_ALLOW_THREADS
    Py_DECREF(holder);
    if (!reader) raise_why(&why);
    return reader;
}

static int reader_init(PyObject *self, PyObject *args, PyObject *unused)
{
    struct reader_object *o = reader_of(self);
    PyObject *url, *options;
    if (!PyArg_ParseTuple(args, "OO!", &url, &PyDict_Type, &options)) return -1;
    if (o->reader || o->closing) {
        PyErr_SetString(PyExc_RuntimeError, "initialised twice");
        return -1;
    }
    PyObject *held = PyList_New(0);
    o->reader = held ? open_reader(url, options, held) : NULL;
    Py_XDECREF(held);
    return o->reader ? 0 : -1;
}

static void reader_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    sherd_reader_close(reader_of(self)->reader);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *pyreader_type(void)
{
    static PyMethodDef methods[] = {
        {"get", (PyCFunction)(void *)reader_get, METH_VARARGS | METH_KEYWORDS,
         "get($self, /, key, context=None)\n--\n\nThe value of a key as bytes, or None if there is no such key.\n\n"
         "context: the routing columns as a mapping, for snapshots that are routed by more than the key."},
        {"route", (PyCFunction)(void *)reader_route, METH_VARARGS | METH_KEYWORDS,
         "route($self, /, key, context=None)\n--\n\nThe shard in which a key is looked for. UnknownTokenError: the routing expression names none."},
        {"_get_list", reader_get_list, METH_VARARGS, "_get_list(keys, context) -> list"},
        {"_open_scan", reader_open_scan, METH_VARARGS, "_open_scan(cursor_type, start, end, prefix, after_start, with_end, reverse, shard) -> Cursor"},
        {"refresh", reader_refresh, METH_NOARGS,
         "refresh($self, /)\n--\n\nLooks for a newer snapshot and switches to it as a whole; True if it did. Reads that are under way end on the snapshot on which they began.\n"
         "False also if the newer one cannot be read: health() says why, and the old one stays."},
        {"_use", reader_use, METH_VARARGS, "_use(ref, run_id, by_offset, offset) -> bool"},
        {"_info", reader_info, METH_NOARGS, "_info() -> dict"},
        {"_shards", reader_shards, METH_NOARGS, "_shards() -> list of dicts"},
        {"_health", reader_health, METH_VARARGS, "_health(staleness_seconds) -> dict"},
        {"stats", reader_stats, METH_NOARGS, "stats($self, /)\n--\n\nCounters since the reader was opened, as a dict: gets, keys, hits, requests, page_hits, downloads and others."},
        {"close", reader_close, METH_NOARGS, "close($self, /)\n--\n\nCloses the reader when the calls and scans that are under way have ended. May be called more than once."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, (void *)reader_init}, {Py_tp_dealloc, (void *)reader_dealloc}, {Py_tp_methods, methods}, {Py_tp_doc, (char *)"Reader(url, options)"}, {0},
    };
    static PyType_Spec spec = {"sherd._sherd.Reader", sizeof(struct reader_object), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
    return PyType_FromSpec(&spec);
}

PyObject *pyreader_cursor_type(void)
{
    static PyMethodDef methods[] = {{"close", cursor_close, METH_NOARGS, "close($self, /)\n--\n\nEnds the scan."}, {0}};
    static PyType_Slot slots[] = {
        {Py_tp_dealloc, (void *)cursor_dealloc}, {Py_tp_iter, (void *)PyObject_SelfIter}, {Py_tp_iternext, (void *)cursor_next},
        {Py_tp_methods, methods}, {Py_tp_doc, (char *)"A scan over one snapshot: an iterator of (key, value)."}, {0},
    };
    static PyType_Spec spec = {"sherd._sherd.Cursor", sizeof(struct cursor_object), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}
