/* _sherd.Builder: collects rows of any number of shards in any order, within a bound of memory, and makes shard files of them where the snapshot lies.
 *
 * Rows are sorted by src/snapshot/sorter.h; the file of a shard is written to a temporary file without a name, put to the store, and its sidecar after it, bound to the ETag that the put
 * told. One thread adds; any number build different shards at once, without the GIL. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/err.h"
#include "base/mem.h"
#include "pysherd.h"
#include "snapshot/pagefile.h"
#include "snapshot/shardbuild.h"
#include "snapshot/sidecar.h"
#include "snapshot/snappath.h"
#include "snapshot/sorter.h"

enum { ATTEMPTS_MAX = 100, PAGE_GUESS = 4096 };

struct builder_object {
    PyObject_HEAD
    struct sorter *sorter;
    enum snapkey_encoding encoding;
    PyObject *dir; /* bytes of a path, or NULL */
    atomic_bool cancel;
    bool adding;   /* a thread is in the sorter */
    bool finished;
};

static struct builder_object *builder_of(PyObject *self) { return (struct builder_object *)(void *)self; }
static const char *dir_of(const struct builder_object *o) { return o->dir ? PyBytes_AsString(o->dir) : NULL; }

/* ---- adding */

/* Rows that wait to be added: all that the sorter needs of them, so that it can work without the GIL. */
struct rows {
    struct pykeys keys;
    struct slice *values;
    const char *buckets; /* int32 of each row; NULL: all go to 0 */
    PyObject *held;     /* list of what values point into */
};

static int value_of(PyObject *object, struct slice *value, PyObject **holder)
{
    struct snapkey k;
    bool fits = PyUnicode_Check(object) || PyBytes_Check(object) || PyByteArray_Check(object) || PyMemoryView_Check(object);
    *holder = NULL;
    if (!fits) PyErr_SetString(PyExc_TypeError, "a value is bytes or str");
    if (!fits || pykeys_one(object, &k, holder) != 0) return -1;
    *value = k.s;
    return 0;
}

static int rows_values(struct rows *r, PyObject *values)
{
    r->held = PySequence_List(values);
    if (!r->held) return -1;
    if ((size_t)PyList_Size(r->held) != r->keys.n) {
        PyErr_SetString(PyExc_ValueError, "keys and values differ in number");
        return -1;
    }
    r->values = mem_alloc((r->keys.n + 1) * sizeof *r->values);
    for (size_t i = 0; i < r->keys.n; i++) {
        PyObject *holder;
        if (value_of(PyList_GetItem(r->held, (Py_ssize_t)i), &r->values[i], &holder) != 0) return -1;
        if (PyList_SetItem(r->held, (Py_ssize_t)i, holder) != 0) return -1;
    }
    return 0;
}

static int rows_init(struct rows *r, PyObject *args)
{
    PyObject *keys, *values;
    Py_ssize_t buckets_bytes = 0;
    *r = (struct rows){0};
    if (!PyArg_ParseTuple(args, "OO|z#", &keys, &values, &r->buckets, &buckets_bytes)) return -1;
    if (pykeys_init(&r->keys, keys) != 0 || rows_values(r, values) != 0) return -1;
    if (!r->buckets || (size_t)buckets_bytes == r->keys.n * sizeof(int32_t)) return 0;
    PyErr_SetString(PyExc_ValueError, "keys and buckets differ in number");
    return -1;
}

static void rows_fini(struct rows *r)
{
    mem_free(r->values);
    pykeys_fini(&r->keys);
    Py_XDECREF(r->held);
}

/* NULL, or why the row cannot be stored; *rc is then 0, or the sorter's error. */
static const char *add_row(struct builder_object *o, const struct rows *r, size_t i, int *rc)
{
    int32_t bucket = 0;
    char scratch[8];
    struct slice stored;
    if (r->buckets) memcpy(&bucket, r->buckets + i * sizeof bucket, sizeof bucket);
    if (bucket < 0) return "it has no shard";
    const char *bad = snapkey_encode(o->encoding, &r->keys.keys[i], scratch, &stored);
    if (bad) return bad;
    if (stored.n + r->values[i].n > SORTER_ROW_MAX) return "key and value are larger than 2 GB";
    *rc = sorter_add(o->sorter, (uint32_t)bucket, stored, r->values[i]);
    return NULL;
}

static PyObject *add_rows(struct builder_object *o, const struct rows *r)
{
    const char *bad = NULL;
    size_t i = 0;
    int rc = 0;
    o->adding = true;
    Py_BEGIN_ALLOW_THREADS
    for (; i < r->keys.n && !bad && rc == 0; i++) bad = add_row(o, r, i, &rc);
    Py_END_ALLOW_THREADS
    o->adding = false;
    if (rc < 0) return pyerrors_code(rc, NULL);
    if (!bad) Py_RETURN_NONE;
    char text[160];
    snprintf(text, sizeof text, "row %zu: %s", i - 1, bad);
    return pyerrors_class("InvalidKeyError", text);
}

static PyObject *builder_add(PyObject *self, PyObject *args)
{
    struct builder_object *o = builder_of(self);
    struct rows rows;
    PyObject *result = NULL;
    if (rows_init(&rows, args) == 0) {
        if (o->finished) pyerrors_class("ConfigError", "rows are added before the shards are built");
        else if (o->adding) pyerrors_class("ConfigError", "one thread at a time adds rows to a builder");
        else result = add_rows(o, &rows);
    }
    rows_fini(&rows);
    return result;
}

static PyObject *builder_finish(PyObject *self, PyObject *unused)
{
    struct builder_object *o = builder_of(self);
    int rc = 0;
    if (o->adding) return pyerrors_class("ConfigError", "another thread is adding rows");
    if (!o->finished) {
        o->adding = true;
        Py_BEGIN_ALLOW_THREADS
        rc = sorter_finish(o->sorter);
        Py_END_ALLOW_THREADS
        o->adding = false;
        o->finished = rc == 0;
    }
    if (rc < 0) return pyerrors_code(rc, NULL);
    return PyLong_FromUnsignedLong(sorter_buckets(o->sorter));
}

/* ---- one shard */

struct job {
    struct sorter *sorter;
    struct object_store *store;
    struct object_call call;
    const char *dir, *run_id;
    PyObject *known; /* only looked at with the GIL */
    uint32_t bucket, shard, attempt, page_size; /* rows of bucket become the shard; page_size 0: auto */
    bool find_attempt;
    enum snapkey_encoding encoding;
    struct shardbuild file;
    struct buf url, failed;
};

/* What failed goes before the code's own words. */
static int failed(struct job *j, int rc, const char *what)
{
    j->failed.len = 0;
    buf_printf(&j->failed, "%s of shard %u: %s%s%s", what, j->shard, err_text(rc), j->call.detail[0] ? ": " : "", j->call.detail);
    return rc;
}

static int find_attempt(struct job *j)
{
    struct buf key = {0};
    struct object_meta meta;
    int rc = 0;
    for (; j->attempt < ATTEMPTS_MAX && rc == 0; j->attempt++) {
        key.len = 0;
        snappath_attempt(&key, j->run_id, j->shard, j->attempt);
        buf_add(&key, "/" SNAPPATH_SHARD_FILE, sizeof "/" SNAPPATH_SHARD_FILE);
        rc = object_head(j->store, &j->call, key.p, &meta);
        if (rc == ERR_OBJECT_NOT_FOUND) break;
    }
    buf_fini(&key);
    return rc == ERR_OBJECT_NOT_FOUND ? 0 : rc == 0 ? -EEXIST : rc;
}

/* A shard does without a sidecar: its failure is none of the build. */
static void put_sidecar(struct job *j, const char *folder, const char *etag)
{
    struct buf key = {0};
    if (j->file.sidecar.len == 0 || !*etag || !sidecar_bind(&j->file.sidecar, 0, slice_str(etag))) return;
    buf_printf(&key, "%s/" SNAPPATH_SIDECAR_FILE "%c", folder, '\0');
    object_put(j->store, &j->call, key.p, buf_slice(&j->file.sidecar), &(struct object_put_options){.content_type = SNAPPATH_TYPE_SIDECAR}, NULL);
    buf_fini(&key);
}

/* Database first, sidecar after it, since that names the ETag. */
static int put_objects(struct job *j)
{
    struct buf folder = {0}, key = {0};
    struct object_meta meta = {0};
    snappath_attempt(&folder, j->run_id, j->shard, j->attempt);
    buf_add_byte(&folder, '\0');
    buf_printf(&key, "%s/" SNAPPATH_SHARD_FILE "%c", folder.p, '\0');
    int rc = object_put_fd(j->store, &j->call, key.p, j->file.fd, SNAPPATH_TYPE_SQLITE, &meta);
    if (rc == 0 && !meta.etag[0]) object_head(j->store, &j->call, key.p, &meta);
    if (rc == 0) put_sidecar(j, folder.p, meta.etag);
    buf_printf(&j->url, "%s/%s", object_url(j->store), folder.p);
    buf_fini(&folder);
    buf_fini(&key);
    return rc;
}

/* The URL under which the snapshot before has the same bytes, appended to j->url. */
static bool find_known(struct job *j)
{
    PyGILState_STATE gil = PyGILState_Ensure();
    PyObject *hash = PyBytes_FromStringAndSize((const char *)j->file.sha256, sizeof j->file.sha256), *holder = NULL;
    PyObject *url = hash && j->known != Py_None ? PyDict_GetItemWithError(j->known, hash) : NULL; /* borrowed */
    const char *text = url ? pytext_of(url, &holder, NULL) : NULL;
    if (text) buf_add_str(&j->url, text);
    PyErr_Clear();
    Py_XDECREF(holder);
    Py_XDECREF(hash);
    PyGILState_Release(gil);
    return text != NULL;
}

/* It is used again if it lies in this store and is still there. */
static bool reuse(struct job *j)
{
    struct buf key = {0};
    struct object_meta meta;
    if (!find_known(j)) return false;
    buf_printf(&key, "%.*s/" SNAPPATH_SHARD_FILE "%c", (int)j->url.len, j->url.p, '\0');
    const char *at = object_key_of(j->store, key.p);
    bool there = at && object_head(j->store, &j->call, at, &meta) == 0 && meta.size == j->file.bytes;
    buf_fini(&key);
    if (!there) j->url.len = 0;
    return there;
}

/* Without the GIL. */
static int run_job(struct job *j)
{
    struct shardbuild_options o = {.sorter = j->sorter, .bucket = j->bucket, .tmp_dir = j->dir, .page_size = j->page_size, .page_guess = PAGE_GUESS, .sidecar = true, .cancel = j->call.cancel};
    int rc = atomic_load(j->call.cancel) ? ERR_OBJECT_CANCELLED : shardbuild_write(&j->file, &o);
    if (rc < 0) return failed(j, rc, "the temporary file");
    if (reuse(j)) return 0;
    rc = j->find_attempt ? find_attempt(j) : 0;
    if (rc == 0) rc = put_objects(j);
    return rc < 0 ? failed(j, rc, "the upload") : 0;
}

static PyObject *key_json(enum snapkey_encoding e, const struct buf *stored)
{
    struct buf json = {0};
    PyObject *text = pytext_or_none(shardbuild_key_json(e, buf_slice(stored), &json) ? json.p : NULL);
    buf_fini(&json);
    return text;
}

static PyObject *job_result(const struct job *j)
{
    return Py_BuildValue("{s:I,s:I,s:s#,s:K,s:K,s:N,s:N,s:y#}", "db_id", j->shard, "attempt", j->attempt, "db_url", j->url.p, (Py_ssize_t)j->url.len, "row_count",
                         (unsigned long long)sorter_added(j->sorter, j->bucket), "db_bytes", (unsigned long long)j->file.bytes, "min_key", key_json(j->encoding, &j->file.min_key),
                         "max_key", key_json(j->encoding, &j->file.max_key), "sha256", (const char *)j->file.sha256, (Py_ssize_t)sizeof j->file.sha256);
}

static void job_fini(struct job *j)
{
    shardbuild_fini(&j->file);
    object_close(j->store);
    buf_fini(&j->url);
    buf_fini(&j->failed);
}

static PyObject *build_shard(struct job *j)
{
    int rc;
    Py_BEGIN_ALLOW_THREADS
    rc = run_job(j);
    Py_END_ALLOW_THREADS
    if (rc == 0) return job_result(j);
    buf_add_byte(&j->failed, '\0');
    return pyerrors_code(rc, j->failed.p);
}

static PyObject *builder_build(PyObject *self, PyObject *args)
{
    struct builder_object *o = builder_of(self);
    PyObject *url, *options;
    int attempt;
    struct job j = {.sorter = o->sorter, .dir = dir_of(o), .encoding = o->encoding, .file.fd = -1, .call.cancel = &o->cancel};
    if (!PyArg_ParseTuple(args, "IIOOsiIO", &j.bucket, &j.shard, &url, &options, &j.run_id, &attempt, &j.page_size, &j.known)) return NULL;
    if (!o->finished) return pyerrors_class("ConfigError", "finish() comes before build()");
    if (j.page_size && !pagefile_is_size(j.page_size)) return pyerrors_class("ConfigError", "page_size is \"auto\" or a power of two from 4096 to 65536");
    if (j.bucket >= sorter_buckets(o->sorter) || sorter_added(o->sorter, j.bucket) == 0) Py_RETURN_NONE;
    j.find_attempt = attempt < 0;
    j.attempt = attempt < 0 ? 0 : (uint32_t)attempt;
    j.store = pystore_open(url, options);
    PyObject *result = j.store ? build_shard(&j) : NULL;
    job_fini(&j);
    return result;
}

static PyObject *builder_cancel(PyObject *self, PyObject *unused)
{
    atomic_store(&builder_of(self)->cancel, true);
    Py_RETURN_NONE;
}

static PyObject *builder_rows(PyObject *self, PyObject *args)
{
    unsigned int bucket;
    if (!PyArg_ParseTuple(args, "I", &bucket)) return NULL;
    struct builder_object *o = builder_of(self);
    return PyLong_FromUnsignedLongLong(o->finished && bucket < sorter_buckets(o->sorter) ? sorter_added(o->sorter, bucket) : 0);
}

/* ---- the type */

static int builder_init(PyObject *self, PyObject *args, PyObject *unused)
{
    struct builder_object *o = builder_of(self);
    const char *encoding;
    PyObject *dir = NULL;
    unsigned long long memory_bytes;
    unsigned int threads;
    if (!PyArg_ParseTuple(args, "sOKI", &encoding, &dir, &memory_bytes, &threads)) return -1;
    if (!snapkey_encoding_parse(slice_str(encoding), &o->encoding)) {
        pyerrors_class("ConfigError", "key_encoding is u64be, u32be, utf8 or raw");
        return -1;
    }
    if (o->sorter) {
        PyErr_SetString(PyExc_RuntimeError, "initialised twice");
        return -1;
    }
    if (dir != Py_None && !PyUnicode_FSConverter(dir, &o->dir)) return -1;
    struct sorter_options options = {.dir = dir_of(o), .memory_bytes = memory_bytes, .threads = threads ? threads : 1};
    o->sorter = sorter_new(&options);
    return 0;
}

static void builder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct builder_object *o = builder_of(self);
    if (o->sorter) sorter_free(o->sorter);
    Py_XDECREF(o->dir);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject *pybuilder_type(void)
{
    static PyMethodDef methods[] = {
        {"add", builder_add, METH_VARARGS, "add(keys, values, buckets=None): adds rows; buckets is bytes of int32, one per row; without it all go to 0."},
        {"finish", builder_finish, METH_NOARGS, "finish() -> int: no more rows come; the highest bucket in use, plus one."},
        {"rows", builder_rows, METH_VARARGS, "rows(bucket) -> int: rows that were added, after finish()."},
        {"build", builder_build, METH_VARARGS,
         "build(bucket, db_id, url, options, run_id, attempt, page_size, known): makes a shard of the bucket's rows. attempt -1: the first that is free. page_size 0: auto. known: {sha256: db_url} or None.\n"
         "Gives a dict that tells of the shard, or None if it has no rows."},
        {"cancel", builder_cancel, METH_NOARGS, "cancel(): builds that are under way end with an error."},
        {0},
    };
    static PyType_Slot slots[] = {
        {Py_tp_init, (void *)builder_init}, {Py_tp_dealloc, (void *)builder_dealloc}, {Py_tp_methods, methods}, {Py_tp_doc, (char *)"Builder(key_encoding, dir, memory_bytes, threads)"}, {0},
    };
    static PyType_Spec spec = {"sherd._sherd.Builder", sizeof(struct builder_object), 0, Py_TPFLAGS_DEFAULT, slots};
    return PyType_FromSpec(&spec);
}
