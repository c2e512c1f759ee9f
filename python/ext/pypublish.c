/* _sherd.Publication: one publisher's work from its run record to `_CURRENT` (src/snapshot/publish.h, runrecord.h). The driver of a build has one; workers do not.
 *
 * Between begin and end a thread of C renews the run record, so that a cleanup spares the shards that workers are writing. */
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "base/mem.h"
#include "pysherd.h"
#include "snapshot/history.h"
#include "snapshot/manifest.h"
#include "snapshot/publish.h"
#include "snapshot/runrecord.h"
#include "snapshot/snappath.h"

enum { SHA256_BYTES = 32 };

struct publication_object {
    PyObject_HEAD
    struct object_store *store;
    struct publish_base base;
    struct runrecord_keeper *keeper; /* NULL: ended */
    PyObject *run_id;                /* bytes */
};

static struct publication_object *publication_of(PyObject *self) { return (struct publication_object *)(void *)self; }

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static PyObject *raise_why(int rc, struct buf *why, const struct object_call *call)
{
    if (why->len == 0) buf_printf(why, "%s%s%s", err_text(rc), call->detail[0] ? ": " : "", call->detail);
    buf_add_byte(why, '\0');
    return pyerrors_code(rc, why->p);
}

/* ---- beginning */

static int begin(struct publication_object *o, const char *run_id, const char *writer_type)
{
    struct buf why = {0};
    struct object_call call = {0};
    int rc;
    Py_BEGIN_ALLOW_THREADS
    rc = publish_observe(o->store, &call, &o->base, &why);
    if (rc == 0) rc = runrecord_begin(&o->keeper, o->store, &call, &(struct runrecord_start){.run_id = run_id, .writer_type = writer_type});
    Py_END_ALLOW_THREADS
    if (rc < 0) raise_why(rc, &why, &call);
    buf_fini(&why);
    return rc < 0 ? -1 : 0;
}

static int publication_init(PyObject *self, PyObject *args, PyObject *unused)
{
    struct publication_object *o = publication_of(self);
    PyObject *url, *options;
    const char *run_id, *writer_type;
    if (!PyArg_ParseTuple(args, "OOss", &url, &options, &run_id, &writer_type)) return -1;
    const char *bad = snappath_check_run_id(slice_str(run_id));
    if (bad || o->store) {
        pyerrors_class("ConfigError", bad ? bad : "initialised twice");
        return -1;
    }
    o->store = pystore_open(url, options);
    o->run_id = o->store ? PyBytes_FromString(run_id) : NULL;
    return o->run_id ? begin(o, run_id, writer_type) : -1;
}

/* ---- the shards of the snapshot before */

static PyObject *known_of(const struct manifest *m)
{
    PyObject *known = PyDict_New();
    for (uint32_t i = 0; known && m && i < m->n_shards; i++) {
        const struct manifest_shard *s = &m->shards[i];
        if (!s->has_sha256 || !s->db_url) continue;
        PyObject *hash = PyBytes_FromStringAndSize((const char *)s->sha256, SHA256_BYTES), *url = PyUnicode_FromString(s->db_url);
        if (!hash || !url || PyDict_SetItem(known, hash, url) != 0) Py_CLEAR(known);
        Py_XDECREF(hash);
        Py_XDECREF(url);
    }
    return known;
}

/* A snapshot that cannot be read has nothing to be reused: the next publish mends it. */
static PyObject *publication_known(PyObject *self, PyObject *unused)
{
    struct publication_object *o = publication_of(self);
    struct manifest *m = NULL;
    if (o->base.readable) {
        Py_BEGIN_ALLOW_THREADS
        if (history_manifest(o->store, NULL, o->base.manifest_ref, &m, NULL) < 0) m = NULL;
        Py_END_ALLOW_THREADS
    }
    PyObject *known = known_of(m);
    manifest_free(m);
    return known;
}

/* ---- publishing */

static int64_t number(PyObject *dict, const char *name)
{
    return PyErr_Occurred() ? 0 : pytext_number(dict, name);
}

/* The hash is content, not a secret: the checkpoint id, by which readers' caches know a file, is its first half. */
static int set_hash(struct manifest_shard *s, PyObject *dict, char checkpoint[SNAPPATH_ID_CHARS + 1])
{
    PyObject *hash = PyDict_GetItemString(dict, "sha256");
    char *p;
    Py_ssize_t n;
    if (!hash || hash == Py_None) return 0;
    if (PyBytes_AsStringAndSize(hash, &p, &n) != 0) return -1;
    if (n != SHA256_BYTES) {
        PyErr_SetString(PyExc_ValueError, "sha256 has 32 bytes");
        return -1;
    }
    memcpy(s->sha256, p, SHA256_BYTES);
    s->has_sha256 = true;
    for (int i = 0; i < SNAPPATH_ID_CHARS / 2; i++) snprintf(checkpoint + i * 2, 3, "%02x", s->sha256[i]);
    s->checkpoint_id = checkpoint;
    return 0;
}

static int read_attempt(PyObject *dict, struct manifest *m, PyObject *held, struct publish_attempt *a)
{
    char checkpoint[SNAPPATH_ID_CHARS + 1];
    PyObject *task = PyDict_GetItemString(dict, "task_attempt_id");
    a->shard = (struct manifest_shard){
        .db_id = (uint32_t)number(dict, "db_id"),
        .attempt = (uint32_t)number(dict, "attempt"),
        .row_count = (uint64_t)number(dict, "row_count"),
        .db_bytes = (uint64_t)number(dict, "db_bytes"),
    };
    a->task_attempt_id = task && task != Py_None ? number(dict, "task_attempt_id") : PUBLISH_NO_TASK;
    if (PyErr_Occurred() || set_hash(&a->shard, dict, checkpoint) != 0) return -1;
    if (a->shard.checkpoint_id) a->shard.checkpoint_id = manifest_copy(m, slice_str(checkpoint));
    a->shard.db_url = pytext_option(dict, "db_url", held);
    a->shard.min_key = pytext_option(dict, "min_key", held);
    a->shard.max_key = pytext_option(dict, "max_key", held);
    a->shard.writer_info = pytext_option(dict, "writer_info", held);
    return PyErr_Occurred() ? -1 : 0;
}

static int read_attempts(PyObject *list, struct manifest *m, PyObject *held, struct publish_attempt *attempts)
{
    for (Py_ssize_t i = 0; i < PyList_Size(list); i++) {
        PyObject *dict = PyList_GetItem(list, i);
        if (!PyDict_Check(dict)) PyErr_SetString(PyExc_TypeError, "an attempt is a dict");
        if (PyErr_Occurred() || read_attempt(dict, m, held, &attempts[i]) != 0) return -1;
    }
    return 0;
}

static int set_cel(struct manifest *m, PyObject *expr, PyObject *names, PyObject *types, PyObject *tokens)
{
    struct pycel p;
    int rc = pycel_init(&p, expr, names, types, tokens);
    if (rc == 0) manifest_set_cel(m, &p.cel);
    pycel_fini(&p);
    return rc;
}

static int add_customs(struct manifest *m, PyObject *custom)
{
    for (Py_ssize_t i = 0; i < PyList_Size(custom); i++) {
        const char *key, *json;
        if (!PyArg_ParseTuple(PyList_GetItem(custom, i), "ss", &key, &json)) return -1;
        if (manifest_add_custom(m, key, json)) continue;
        pyerrors_class("ConfigError", "a custom field is there twice, or is no JSON");
        return -1;
    }
    return 0;
}

static int swap_in(struct publication_object *o, struct manifest *m, struct publish_attempt *attempts, size_t n, struct publish_result *result, struct buf *why, struct object_call *call)
{
    int rc = publish_choose(attempts, n, m->num_dbs, why);
    if (rc < 0) return rc;
    publish_add_winners(m, attempts, n);
    if (!runrecord_lease_holds(o->keeper)) return ERR_SNAPSHOT_LEASE;
    rc = publish_snapshot(o->store, call, m, &o->base, now_us(), result, why);
    if (rc < 0) return rc;
    publish_delete_losers(o->store, call, m, attempts, n);
    runrecord_succeed(o->keeper, call, result->manifest_ref);
    o->keeper = NULL;
    return 0;
}

static PyObject *publish_now(struct publication_object *o, struct manifest *m, struct publish_attempt *attempts, size_t n)
{
    struct publish_result result = {0};
    struct buf why = {0};
    struct object_call call = {0};
    PyObject *told;
    int rc;
    Py_BEGIN_ALLOW_THREADS
    rc = swap_in(o, m, attempts, n, &result, &why, &call);
    Py_END_ALLOW_THREADS
    if (rc == 0) {
        PyObject *wins = PyList_New(0);
        for (size_t i = 0; wins && i < n; i++)
            if (PyList_Append(wins, attempts[i].wins ? Py_True : Py_False) != 0) Py_CLEAR(wins);
        told = Py_BuildValue("{s:s,s:L,s:s,s:N}", "manifest_ref", result.manifest_ref, "published_us", (long long)result.published_us, "guard",
                             result.guard == PUBLISH_BY_STORE ? "store" : "reread", "wins", wins);
    } else {
        told = raise_why(rc, &why, &call);
    }
    publish_result_fini(&result);
    buf_fini(&why);
    return told;
}

struct publish_args {
    unsigned int num_dbs;
    const char *encoding, *key_col;
    PyObject *expr, *names, *types, *tokens, *custom, *attempts;
};

/* A manifest without its shards; it borrows from o. */
static int fill_manifest(const struct publication_object *o, const struct publish_args *a, struct manifest *m)
{
    m->run_id = PyBytes_AsString(o->run_id);
    m->num_dbs = a->num_dbs;
    m->s3_prefix = object_url(o->store);
    m->key_col = manifest_copy(m, slice_str(a->key_col));
    manifest_set_created(m, now_us());
    if (!snapkey_encoding_parse(slice_str(a->encoding), &m->key_encoding)) {
        pyerrors_class("ConfigError", "key_encoding is u64be, u32be, utf8 or raw");
        return -1;
    }
    if (a->expr != Py_None && set_cel(m, a->expr, a->names, a->types, a->tokens) != 0) return -1;
    return add_customs(m, a->custom);
}

static PyObject *publication_publish(PyObject *self, PyObject *args)
{
    struct publication_object *o = publication_of(self);
    struct publish_args a;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "IssOOOOO!O!", &a.num_dbs, &a.encoding, &a.key_col, &a.expr, &a.names, &a.types, &a.tokens, &PyList_Type, &a.custom, &PyList_Type, &a.attempts)) return NULL;
    if (!o->keeper) return pyerrors_class("ConfigError", "this publication has ended");
    PyObject *held = PyList_New(0);
    if (!held) return NULL;
    size_t n = (size_t)PyList_Size(a.attempts);
    struct manifest *m = manifest_new();
    struct publish_attempt *attempts = mem_zalloc((n + 1) * sizeof *attempts);
    if (fill_manifest(o, &a, m) == 0 && read_attempts(a.attempts, m, held, attempts) == 0) result = publish_now(o, m, attempts, n);
    mem_free(attempts);
    manifest_free(m);
    Py_DECREF(held);
    return result;
}

static PyObject *publication_fail(PyObject *self, PyObject *args)
{
    struct publication_object *o = publication_of(self);
    const char *type, *message;
    if (!PyArg_ParseTuple(args, "ss", &type, &message)) return NULL;
    struct runrecord_keeper *keeper = o->keeper;
    o->keeper = NULL;
    if (keeper) {
        Py_BEGIN_ALLOW_THREADS
        runrecord_fail(keeper, NULL, type, message);
        Py_END_ALLOW_THREADS
    }
    Py_RETURN_NONE;
}

static PyObject *publication_ref(PyObject *self, PyObject *unused)
{
    struct publication_object *o = publication_of(self);
    return pytext_or_none(o->keeper ? runrecord_ref(o->keeper) : NULL);
}

/* ---- the type */

static void publication_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct publication_object *o = publication_of(self);
    if (o->keeper) runrecord_fail(o->keeper, NULL, "Abandoned", "the publication was neither published nor failed");
    publish_base_fini(&o->base);
    object_close(o->store);
    Py_XDECREF(o->run_id);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *pypublish_type(void)
{
    static PyMethodDef methods[] = {
        {"known", publication_known, METH_NOARGS, "known() -> dict: {sha256: db_url} of the shards of the snapshot that is current when the publication began."},
        {"publish", publication_publish, METH_VARARGS,
         "publish(num_dbs, key_encoding, key_col, cel_expr, names, types, tokens, custom, attempts) -> dict: chooses winners, writes the manifest, swaps _CURRENT."},
        {"fail", publication_fail, METH_VARARGS, "fail(error_type, message): ends the run record as failed."},
        {"run_record_ref", publication_ref, METH_NOARGS, "run_record_ref() -> str: the URL of the run record, None after the end."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, (void *)publication_init}, {Py_tp_dealloc, (void *)publication_dealloc}, {Py_tp_methods, methods}, {Py_tp_doc, (char *)"Publication(url, options, run_id, writer_type)"}, {0},
    };
    static PyType_Spec spec = {"sherd._sherd.Publication", sizeof(struct publication_object), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}
