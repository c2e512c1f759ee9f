/* The format: a YAML mapping, as Python's yaml.safe_dump writes it.
 *
 *   db_path_template: db={db_id:05d}
 *   error_message: null
 *   error_type: null
 *   format_version: 1
 *   lease_expires_at: '2026-11-15T08:21:24.410859Z'
 *   manifest_ref: s3://bucket/prefix/manifests/.../manifest      null before it is known
 *   run_id: 0b5f...
 *   s3_prefix: s3://bucket/prefix
 *   shard_prefix: shards
 *   started_at: '2026-11-15T08:21:24.368520Z'
 *   status: running                                              or succeeded, or failed
 *   updated_at: '2026-11-15T08:21:24.410859Z'
 *   writer_type: sherd */
#include "snapshot/runrecord.h"

#include <pthread.h>
#include <yaml.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/mem.h"
#include "cel/utf8.h"
#include "object/object.h"
#include "snapshot/snappath.h"

static const char *const status_names[] = {"running", "succeeded", "failed"};
static const int64_t clock_difference_us = 5ll * 60 * 1000000;

bool runrecord_is_live(const struct runrecord *r, int64_t now_us)
{
    return r->status == RUNRECORD_RUNNING && r->lease_expires_us + clock_difference_us > now_us;
}

/* ---- writing YAML */

/* Words that YAML 1.1 takes for null or a truth value, in any case of letters. */
static bool is_reserved_word(const char *s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no", "on", "off", "y", "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(s, words[i]) == 0) return true;
    return false;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits and letters that begin with a digit and are no number: ids in hex, most of the time. */
static bool is_plain_id(const char *s)
{
    bool letters = false;
    if (s[0] == '0' && s[1] != '\0' && strchr("bxo", s[1])) return false;
    for (; *s; s++) {
        if (!is_letter(*s) && !is_digit(*s)) return false;
        letters |= is_letter(*s);
    }
    return letters;
}

/* Whether the text may stand without quotes. Stricter than YAML: quotes are never wrong. */
static bool is_plain(const char *s)
{
    if (is_digit(s[0])) return is_plain_id(s);
    if ((!is_letter(s[0]) && s[0] != '/' && s[0] != '_') || is_reserved_word(s)) return false;
    for (const char *p = s; *p; p++) {
        if (!is_letter(*p) && !is_digit(*p) && !strchr("._/:=+{}@%,()'- ", *p)) return false;
        if ((*p == ':' || *p == ' ') && (p[1] == ' ' || p[1] == '\0')) return false;
    }
    return true;
}

static bool is_one_ascii_line(const char *s)
{
    for (; *s; s++)
        if (*s < 0x20 || *s == 0x7f) return false;
    return true;
}

static void add_single_quoted(struct buf *out, const char *s)
{
    buf_add_byte(out, '\'');
    for (; *s; s++) {
        if (*s == '\'') buf_add_byte(out, '\'');
        buf_add_byte(out, *s);
    }
    buf_add_byte(out, '\'');
}

/* Bytes that are no UTF-8 become U+FFFD: texts of errors may quote anything. */
static void add_double_quoted(struct buf *out, struct slice s)
{
    buf_add_byte(out, '"');
    for (size_t at = 0, n; at < s.n; at += n) {
        uint32_t c;
        n = utf8_decode(slice_of(s.p + at, s.n - at), &c);
        if (n == 0) n = 1, c = 0xfffd;
        if (c == '"' || c == '\\') buf_printf(out, "\\%c", (char)c);
        else if (c == '\n') buf_add_str(out, "\\n");
        else if (c >= 0x20 && c < 0x7f) buf_add_byte(out, (char)c);
        else if (c < 0x100) buf_printf(out, "\\x%02X", c);
        else buf_printf(out, c < 0x10000 ? "\\u%04X" : "\\U%08X", c);
    }
    buf_add_byte(out, '"');
}

static void add_text(struct buf *out, const char *key, const char *s)
{
    buf_printf(out, "%s: ", key);
    if (!s) buf_add_str(out, "null");
    else if (is_plain(s)) buf_add_str(out, s);
    else if (is_one_ascii_line(s)) add_single_quoted(out, s);
    else add_double_quoted(out, slice_str(s));
    buf_add_byte(out, '\n');
}

static void add_time(struct buf *out, const char *key, int64_t us)
{
    char ts[SNAPPATH_TIME_CHARS + 1];
    snappath_time(us, ts);
    buf_printf(out, "%s: '%s'\n", key, ts);
}

void runrecord_write(const struct runrecord *r, struct buf *out)
{
    add_text(out, "db_path_template", r->db_path_template);
    add_text(out, "error_message", r->error_message);
    add_text(out, "error_type", r->error_type);
    buf_add_str(out, "format_version: 1\n");
    add_time(out, "lease_expires_at", r->lease_expires_us);
    add_text(out, "manifest_ref", r->manifest_ref);
    add_text(out, "run_id", r->run_id);
    add_text(out, "s3_prefix", r->s3_prefix);
    add_text(out, "shard_prefix", r->shard_prefix);
    add_time(out, "started_at", r->started_us);
    add_text(out, "status", status_names[r->status]);
    add_time(out, "updated_at", r->updated_us);
    add_text(out, "writer_type", r->writer_type);
}

/* ---- reading YAML */

/* The scalar of a key of the root mapping, NULL where it is null or absent. */
static const char *find(yaml_document_t *doc, const yaml_node_t *root, const char *key)
{
    for (const yaml_node_pair_t *pair = root->data.mapping.pairs.start; pair < root->data.mapping.pairs.top; pair++) {
        const yaml_node_t *k = yaml_document_get_node(doc, pair->key), *v = yaml_document_get_node(doc, pair->value);
        if (!k || !v || k->type != YAML_SCALAR_NODE || v->type != YAML_SCALAR_NODE || strcmp((const char *)k->data.scalar.value, key) != 0) continue;
        const char *text = (const char *)v->data.scalar.value;
        if (strlen(text) != v->data.scalar.length) return NULL;
        bool null = v->data.scalar.style == YAML_PLAIN_SCALAR_STYLE && (text[0] == '\0' || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0);
        return null ? NULL : text;
    }
    return NULL;
}

static bool parse_status(const char *text, enum runrecord_status *s)
{
    for (int i = RUNRECORD_RUNNING; i <= RUNRECORD_FAILED; i++) {
        *s = (enum runrecord_status)i;
        if (text && strcmp(text, status_names[i]) == 0) return true;
    }
    return false;
}

static char *copy(const char *s) { return s ? mem_strdup(s) : NULL; }

static const char *parse_mapping(yaml_document_t *doc, struct runrecord *r)
{
    const yaml_node_t *root = yaml_document_get_root_node(doc);
    if (!root || root->type != YAML_MAPPING_NODE) return "it is no mapping";
    const char *lease = find(doc, root, "lease_expires_at"), *started = find(doc, root, "started_at"), *updated = find(doc, root, "updated_at");
    r->run_id = copy(find(doc, root, "run_id"));
    r->s3_prefix = copy(find(doc, root, "s3_prefix"));
    r->shard_prefix = copy(find(doc, root, "shard_prefix"));
    r->db_path_template = copy(find(doc, root, "db_path_template"));
    r->writer_type = copy(find(doc, root, "writer_type"));
    r->manifest_ref = copy(find(doc, root, "manifest_ref"));
    r->error_type = copy(find(doc, root, "error_type"));
    r->error_message = copy(find(doc, root, "error_message"));
    if (!r->run_id || r->run_id[0] == '\0') return "run_id is missing";
    if (!parse_status(find(doc, root, "status"), &r->status)) return "status is none of running, succeeded, failed";
    if (!lease || !snappath_parse_time(slice_str(lease), &r->lease_expires_us)) return "lease_expires_at is missing or no time";
    if (started && !snappath_parse_time(slice_str(started), &r->started_us)) return "started_at is no time";
    if (updated && !snappath_parse_time(slice_str(updated), &r->updated_us)) return "updated_at is no time";
    return NULL;
}

int runrecord_parse(struct slice yaml, struct runrecord *r, struct buf *why)
{
    yaml_parser_t parser;
    yaml_document_t doc;
    const char *bad = "it is no YAML";
    *r = (struct runrecord){0};
    if (yaml.n > RUNRECORD_BYTES_MAX || !yaml_parser_initialize(&parser)) {
        if (why) buf_add_str(why, "run record: it is too large");
        return ERR_SNAPSHOT_BAD_RUN;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)(yaml.n ? yaml.p : ""), yaml.n);
    if (yaml_parser_load(&parser, &doc)) {
        bad = parse_mapping(&doc, r);
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    if (!bad) return 0;
    if (why) buf_printf(why, "run record: %s", bad);
    runrecord_fini(r);
    return ERR_SNAPSHOT_BAD_RUN;
}

void runrecord_fini(struct runrecord *r)
{
    mem_free(r->run_id);
    mem_free(r->s3_prefix);
    mem_free(r->shard_prefix);
    mem_free(r->db_path_template);
    mem_free(r->writer_type);
    mem_free(r->manifest_ref);
    mem_free(r->error_type);
    mem_free(r->error_message);
    *r = (struct runrecord){0};
}

/* ---- one's own record */

struct runrecord_keeper {
    struct object_store *store;
    struct runrecord record; /* the thread's while it runs, its master's afterwards */
    char *key, *ref;
    uint32_t beat_ms, lease_ms;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stop;          /* under lock */
    atomic_bool cancel; /* of a renewal under way, when the end has come */
    atomic_uint misses;
    _Atomic int64_t lease_until_us; /* monotonic clock */
};

static int put_record(struct runrecord_keeper *k, struct object_call *call)
{
    struct buf yaml = {0};
    struct object_put_options options = {.content_type = "application/x-yaml"};
    runrecord_write(&k->record, &yaml);
    int rc = object_put(k->store, call, k->key, buf_slice(&yaml), &options, NULL);
    buf_fini(&yaml);
    return rc;
}

/* The lease counts from before the put: what the store holds is never longer than what we believe. */
static int renew(struct runrecord_keeper *k, struct object_call *call)
{
    int64_t mono = clock_mono_us(), now = clock_unix_us(), lease_us = (int64_t)k->lease_ms * 1000;
    k->record.updated_us = now;
    k->record.lease_expires_us = now + lease_us;
    int rc = put_record(k, call);
    if (rc == 0) atomic_store(&k->lease_until_us, mono + lease_us);
    return rc;
}

/* True: it is time to renew; false: it is time to end. */
static bool sleep_a_beat(struct runrecord_keeper *k)
{
    int64_t until_ns = clock_mono_ns() + (int64_t)k->beat_ms * 1000000;
    struct timespec until = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    int rc = 0;
    pthread_mutex_lock(&k->lock);
    while (!k->stop && rc == 0) rc = pthread_cond_timedwait(&k->wake, &k->lock, &until);
    bool stop = k->stop;
    pthread_mutex_unlock(&k->lock);
    return !stop;
}

static void *keep(void *arg)
{
    struct runrecord_keeper *k = arg;
    while (sleep_a_beat(k)) {
        struct object_call call = {.cancel = &k->cancel};
        if (renew(k, &call) != 0) atomic_fetch_add(&k->misses, 1);
    }
    return NULL;
}

static void free_keeper(struct runrecord_keeper *k)
{
    pthread_cond_destroy(&k->wake);
    pthread_mutex_destroy(&k->lock);
    runrecord_fini(&k->record);
    mem_free(k->key);
    mem_free(k->ref);
    mem_free(k);
}

static struct runrecord_keeper *new_keeper(struct object_store *s, const struct runrecord_start *start)
{
    struct runrecord_keeper *k = mem_zalloc(sizeof *k);
    struct buf key = {0}, ref = {0};
    char id[SNAPPATH_ID_CHARS + 1];
    pthread_condattr_t attr;
    k->store = s;
    k->beat_ms = start->beat_ms ? start->beat_ms : RUNRECORD_BEAT_MS;
    k->lease_ms = start->lease_ms ? start->lease_ms : RUNRECORD_LEASE_MS;
    k->record = (struct runrecord){
        .run_id = mem_strdup(start->run_id),
        .s3_prefix = mem_strdup(object_url(s)),
        .shard_prefix = mem_strdup(SNAPPATH_SHARD_PREFIX),
        .db_path_template = mem_strdup(SNAPPATH_DB_TEMPLATE),
        .writer_type = mem_strdup(start->writer_type ? start->writer_type : "sherd"),
        .started_us = clock_unix_us(),
    };
    snappath_new_id(id);
    snappath_run(&key, k->record.started_us, start->run_id, id);
    buf_add_byte(&key, '\0');
    buf_printf(&ref, "%s/%s", object_url(s), key.p);
    buf_add_byte(&ref, '\0');
    k->key = key.p;
    k->ref = ref.p;
    pthread_mutex_init(&k->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&k->wake, &attr);
    pthread_condattr_destroy(&attr);
    return k;
}

int runrecord_begin(struct runrecord_keeper **out, struct object_store *s, struct object_call *call, const struct runrecord_start *start)
{
    if (snappath_check_run_id(slice_str(start->run_id))) return ERR_OBJECT_KEY;
    struct runrecord_keeper *k = new_keeper(s, start);
    int rc = renew(k, call);
    if (rc == 0) rc = -pthread_create(&k->thread, NULL, keep, k);
    if (rc != 0) {
        free_keeper(k);
        return rc;
    }
    *out = k;
    return 0;
}

const char *runrecord_ref(const struct runrecord_keeper *k) { return k->ref; }
uint32_t runrecord_misses(const struct runrecord_keeper *k) { return atomic_load(&k->misses); }
bool runrecord_lease_holds(const struct runrecord_keeper *k) { return clock_mono_us() < atomic_load(&k->lease_until_us); }

/* The record is the thread's until it has ended. */
static int end(struct runrecord_keeper *k, struct object_call *call, enum runrecord_status status, const char *manifest_ref, const char *error_type, const char *error_message)
{
    pthread_mutex_lock(&k->lock);
    k->stop = true;
    pthread_cond_signal(&k->wake);
    pthread_mutex_unlock(&k->lock);
    atomic_store(&k->cancel, true);
    pthread_join(k->thread, NULL);
    k->record.status = status;
    k->record.manifest_ref = copy(manifest_ref);
    k->record.error_type = copy(error_type);
    k->record.error_message = copy(error_message);
    k->record.updated_us = k->record.lease_expires_us = clock_unix_us();
    int rc = put_record(k, call);
    free_keeper(k);
    return rc;
}

int runrecord_succeed(struct runrecord_keeper *k, struct object_call *call, const char *manifest_ref)
{
    return end(k, call, RUNRECORD_SUCCEEDED, manifest_ref, NULL, NULL);
}

int runrecord_fail(struct runrecord_keeper *k, struct object_call *call, const char *error_type, const char *error_message)
{
    return end(k, call, RUNRECORD_FAILED, NULL, error_type, error_message);
}
