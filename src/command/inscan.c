#include "command/inscan.h"

#include "base/glob.h"
#include "base/num.h"
#include "command/cursor.h"
#include "store/body.h"

enum { INSCAN_WANT = 10 };

static void answer(struct exec *x, uint64_t cursor, size_t n, struct slice elements)
{
    char text[NUM_I64_MAX_CHARS];
    reply_array(&x->out, 2);
    reply_bulk(&x->out, slice_of(text, num_format_u64(text, cursor)));
    reply_array(&x->out, n);
    buf_add_slice(x->out.out, elements);
}

static bool read_count(struct exec *x, struct slice arg, size_t *want)
{
    int64_t n;
    if (!exec_arg_i64(x, arg, &n)) return false;
    if (n < 1) {
        exec_syntax(x);
        return false;
    }
    *want = (size_t)n;
    return true;
}

static bool read_options(struct exec *x, struct inscan *s, enum type t)
{
    for (uint32_t i = 3; i < x->argc; i++) {
        bool more = i + 1 < x->argc;
        if (more && slice_is(x->argv[i], "count")) {
            if (!read_count(x, x->argv[++i], &s->want)) return false;
        } else if (more && slice_is(x->argv[i], "match")) {
            s->pattern = x->argv[++i];
            s->filtered = !slice_eq(s->pattern, SLICE("*"));
        } else if ((t == TYPE_HASH && slice_is(x->argv[i], "novalues")) || (t == TYPE_ZSET && slice_is(x->argv[i], "noscores"))) {
            s->names_only = true;
        } else {
            exec_syntax(x);
            return false;
        }
    }
    return true;
}

/* The order of the checks is that of Redis: a bad option of a missing key goes unnoticed. */
bool inscan_begin(struct exec *x, struct inscan *s, enum type t)
{
    *s = (struct inscan){.want = INSCAN_WANT};
    if (!num_parse_u64(x->argv[2], &s->cursor)) {
        reply_error(&x->out, "ERR invalid cursor");
        return false;
    }
    struct place at;
    if (!exec_find_type(x, x->argv[1], t, &at)) return false;
    if (!at.e) {
        answer(x, 0, 0, slice_of(NULL, 0));
        return false;
    }
    s->e = at.e;
    s->cursor = cursor_position(&cursor_of_members, s->cursor, body_order(s->e));
    s->items = (struct reply){.out = &s->bytes, .resp = x->out.resp};
    return read_options(x, s, t);
}

bool inscan_wants(const struct inscan *s, struct slice item) { return !s->filtered || glob_match(s->pattern, item, false); }

void inscan_add(struct inscan *s, struct slice element)
{
    reply_bulk(&s->items, element);
    s->n++;
}

void inscan_end(struct exec *x, struct inscan *s)
{
    answer(x, cursor_in_table(&cursor_of_members, s->cursor, body_order(s->e)), s->n, buf_slice(&s->bytes));
    buf_fini(&s->bytes);
}
