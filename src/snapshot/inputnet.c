/* Where there is no SNAPSHOT.EXPORT (snapshot/inputexport.h), rounds: SCAN gives some keys; they are asked for with GETs, many in one packet but never so many that the server, busy sending, could stop reading. */
#include "snapshot/inputnet.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "snapshot/inputdump.h"
#include "snapshot/inputexport.h"
#include "snapshot/inputwire.h"

enum {
    SCAN_COUNT = 1000,
    SEND_BYTES = 32 << 10, /* of requests under way */
};

struct inputnet {
    struct input input;
    struct inputwire *wire;
    const struct input_options *o;
    struct buf keys;        /* of the last SCAN: u32 bytes, then the key, each */
    size_t keys_at;         /* the next one whose reply comes */
    size_t asked_at;        /* the next one to be asked for */
    char cursor[32];
    bool scanned_all;
    struct buf value;
    struct slice key;
    struct slice *columns;
};

/* ---- rounds */

static bool read_cursor(struct inputnet *m, struct buf *why)
{
    struct buf cursor = {0};
    int64_t n;
    bool good = inputwire_head(m->wire, '*', 2, &n, why) && inputwire_head(m->wire, '$', sizeof m->cursor - 1, &n, why) && inputwire_bulk(m->wire, n, &cursor, why);
    if (good) {
        snprintf(m->cursor, sizeof m->cursor, "%.*s", (int)cursor.len, cursor.p);
        m->scanned_all = strcmp(m->cursor, "0") == 0;
    }
    buf_fini(&cursor);
    return good;
}

static bool scan(struct inputnet *m, struct buf *why)
{
    char count[16];
    int64_t n, bytes;
    struct slice words[] = {SLICE("SCAN"), slice_str(m->cursor), SLICE("COUNT"), slice_of(count, (size_t)snprintf(count, sizeof count, "%d", SCAN_COUNT))};
    inputwire_add(m->wire, words, 4);
    if (!inputwire_send(m->wire, why) || !read_cursor(m, why) || !inputwire_head(m->wire, '*', INPUTWIRE_ARRAY_MAX, &n, why)) return false;
    m->keys.len = m->keys_at = m->asked_at = 0;
    for (; n > 0; n--) {
        if (!inputwire_head(m->wire, '$', INPUTWIRE_BULK_MAX, &bytes, why)) return false;
        uint32_t size = (uint32_t)bytes;
        buf_add(&m->keys, &size, sizeof size);
        if (!inputwire_bulk(m->wire, bytes, &m->keys, why)) return false;
    }
    return true;
}

static struct slice key_at(const struct inputnet *m, size_t at)
{
    uint32_t n;
    memcpy(&n, m->keys.p + at, sizeof n);
    return slice_of(m->keys.p + at + sizeof n, n);
}

static bool ask(struct inputnet *m, struct buf *why)
{
    while (m->asked_at < m->keys.len && m->wire->out.len < SEND_BYTES) {
        struct slice key = key_at(m, m->asked_at), words[] = {SLICE("GET"), key};
        inputwire_add(m->wire, words, 2);
        m->asked_at += sizeof(uint32_t) + key.n;
    }
    return inputwire_send(m->wire, why);
}

enum answer { ANSWER_VALUE, ANSWER_GONE, ANSWER_OTHER_TYPE, ANSWER_BROKEN };

static enum answer take_answer(struct inputnet *m, struct buf *why)
{
    char line[INPUTWIRE_LINE];
    int64_t n;
    m->key = key_at(m, m->keys_at);
    if (!inputwire_line(m->wire, line, why)) return ANSWER_BROKEN;
    m->keys_at += sizeof(uint32_t) + m->key.n;
    if (strncmp(line, "-WRONGTYPE", 10) == 0) return ANSWER_OTHER_TYPE;
    if (line[0] == '_' || strcmp(line, "$-1") == 0) return ANSWER_GONE;
    m->value.len = 0;
    if (line[0] == '$' && num_parse_i64(slice_str(line + 1), &n) && n >= 0 && n <= INPUTWIRE_BULK_MAX) return inputwire_bulk(m->wire, n, &m->value, why) ? ANSWER_VALUE : ANSWER_BROKEN;
    if (line[0] == '-') inputwire_broken(m->wire, line + 1, why);
    else inputwire_nonsense(m->wire, why);
    return ANSWER_BROKEN;
}

static enum input_result refuse(struct inputnet *m, struct buf *why)
{
    buf_printf(why, "%s: only strings can be published (--skip-other-types leaves others out): ", m->wire->address);
    input_print(why, m->key);
    return INPUT_BAD;
}

static enum input_result next(struct input *in, struct input_row *row, struct buf *why)
{
    struct inputnet *m = (struct inputnet *)in;
    for (;;) {
        while (m->keys_at == m->keys.len) {
            if (m->scanned_all) return INPUT_END;
            if (!scan(m, why)) return INPUT_FAILED;
        }
        if (m->keys_at == m->asked_at && !ask(m, why)) return INPUT_FAILED;
        switch (take_answer(m, why)) {
        case ANSWER_BROKEN: return INPUT_FAILED;
        case ANSWER_GONE: continue;
        case ANSWER_OTHER_TYPE:
            if (!m->o->skip_other_types) return refuse(m, why);
            in->left_out++;
            continue;
        case ANSWER_VALUE: break;
        }
        atomic_store_explicit(&in->done_bytes, m->wire->received_bytes, memory_order_relaxed);
        for (size_t i = 0; i < m->o->fields.n_columns; i++) m->columns[i] = m->key;
        *row = (struct input_row){.key = m->key, .value = buf_slice(&m->value), .columns = m->columns};
        return INPUT_ROW;
    }
}

static void where(const struct input *in, struct buf *out) { buf_printf(out, "%s: ", ((const struct inputnet *)in)->wire->address); }

static void free_wire(struct inputwire *w)
{
    inputwire_close(w);
    mem_free(w);
}

static void release(struct input *in)
{
    struct inputnet *m = (struct inputnet *)in;
    free_wire(m->wire);
    buf_fini(&m->keys);
    buf_fini(&m->value);
    mem_free(m->columns);
    mem_free(m);
}

/* Takes the connection. */
static struct input *open_scan(struct inputwire *w, const struct input_options *o)
{
    struct inputnet *m = mem_zalloc(sizeof *m);
    m->input = (struct input){.next = next, .free = release, .where = where};
    m->wire = w;
    m->o = o;
    m->columns = mem_zalloc((o->fields.n_columns + 1) * sizeof *m->columns);
    strcpy(m->cursor, "0");
    return &m->input;
}

struct input *inputnet_open(const struct inputnet_server *server, const struct input_options *o, enum inputnet_way *way, struct buf *error)
{
    if (!inputdump_check_fields(&o->fields, server->address, error)) return NULL;
    struct inputwire *w = mem_zalloc(sizeof *w);
    w->cancel = o->cancel;
    enum inputexport_answer answer = inputwire_open(w, server, o->db, error) ? inputexport_begin(w, o, error) : INPUTEXPORT_FAILED;
    *way = answer == INPUTEXPORT_BEGUN ? INPUTNET_CUT : answer == INPUTEXPORT_NO_DATA ? INPUTNET_SCAN_SNAPSHOT : INPUTNET_SCAN_OTHER;
    switch (answer) {
    case INPUTEXPORT_BEGUN: return inputexport_open(w, o);
    case INPUTEXPORT_UNKNOWN:
    case INPUTEXPORT_NO_DATA: return open_scan(w, o);
    case INPUTEXPORT_FAILED: break;
    }
    free_wire(w);
    return NULL;
}
