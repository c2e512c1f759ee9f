/* SORT and SORT_RO: the elements of a list, set or sorted set in another order, by themselves or by the values of keys that a pattern names.
 *
 * A pattern names one key per element: its first `*` is replaced by the element; with `->field` behind it, the key is a hash and the value
 * that field's. Such keys may be anywhere, hence needs_all; a call without such patterns holds only its own keys. Elements are copied
 * before anything else is looked up, for looking up may delete keys that have expired. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "command/families.h"
#include "command/gather.h"
#include "store/chill.h"
#include "store/hash.h"
#include "store/list.h"
#include "store/set.h"
#include "store/zset.h"

/* ---- arguments */

enum option { OPT_ASC, OPT_DESC, OPT_ALPHA, OPT_LIMIT, OPT_STORE, OPT_BY, OPT_GET, OPT_BAD };

/* The option at argument i; *next: the argument behind it and its own ones. */
static enum option option_at(const struct slice *argv, uint32_t argc, uint32_t i, uint32_t *next)
{
    static const struct {
        const char *name;
        uint32_t args;
    } options[] = {{"asc", 0}, {"desc", 0}, {"alpha", 0}, {"limit", 2}, {"store", 1}, {"by", 1}, {"get", 1}};
    for (unsigned o = 0; o < OPT_BAD; o++) {
        if (!slice_is(argv[i], options[o].name) || argc - i - 1 < options[o].args) continue;
        *next = i + 1 + options[o].args;
        return (enum option)o;
    }
    return OPT_BAD;
}

static bool names_a_key(struct slice pattern) { return pattern.n > 0 && memchr(pattern.p, '*', pattern.n); }

static int sort_keys(const struct slice *argv, uint32_t argc, uint32_t *at, int max)
{
    uint32_t dest = 0;
    for (uint32_t i = 2, next; i < argc; i = next) {
        enum option o = option_at(argv, argc, i, &next);
        if (o == OPT_BAD) return -1;
        if (o == OPT_STORE) dest = i + 1;
    }
    if (max > 0) at[0] = 1;
    if (dest && max > 1) at[1] = dest;
    return dest ? 2 : 1;
}

static bool sort_needs_all(const struct slice *argv, uint32_t argc)
{
    for (uint32_t i = 2, next; i < argc; i = next) {
        enum option o = option_at(argv, argc, i, &next);
        if (o == OPT_BAD) return false;
        if ((o == OPT_BY || o == OPT_GET) && names_a_key(argv[i + 1])) return true;
    }
    return false;
}

struct sorting {
    bool desc, alpha, nosort;
    const struct slice *by;   /* a pattern that names keys; NULL: the elements themselves */
    const struct slice *dest; /* STORE; NULL: answer */
    const struct slice **gets;
    uint32_t n_gets;
    int64_t offset, count;    /* LIMIT; count < 0: all */
    struct gather elements;   /* copies, in the collection's order */
    struct gather values;     /* copies of what BY found */
    struct item *items;
    struct buf text;          /* a key or number being made */
    bool unreadable; /* a value that a pattern names is cold and cannot be read */
};

struct item {
    struct slice element;
    struct slice by;  /* ALPHA; p NULL: BY found nothing */
    double score;     /* otherwise */
    uint32_t at;      /* place in the collection */
};

/* A pattern that names no key says that the order is to stay, whatever another BY says. */
static void read_by(struct sorting *s, const struct slice *pattern)
{
    s->by = names_a_key(*pattern) ? pattern : NULL;
    s->nosort |= !s->by;
}

static bool read_options(struct exec *x, struct sorting *s)
{
    for (uint32_t i = 2, next; i < x->argc; i = next) {
        const struct slice *arg = &x->argv[i + 1];
        enum option o = option_at(x->argv, x->argc, i, &next);
        if (o == OPT_STORE && !(x->cmd->flags & CMD_WRITE)) o = OPT_BAD; /* SORT_RO */
        switch (o) {
        case OPT_ASC: s->desc = false; break;
        case OPT_DESC: s->desc = true; break;
        case OPT_ALPHA: s->alpha = true; break;
        case OPT_BY: read_by(s, arg); break;
        case OPT_GET: s->gets[s->n_gets++] = arg; break;
        case OPT_LIMIT:
            if (!exec_arg_i64(x, arg[0], &s->offset) || !exec_arg_i64(x, arg[1], &s->count)) return false;
            break;
        case OPT_STORE: s->dest = arg; break;
        default: exec_syntax(x); return false;
        }
    }
    return true;
}

/* ---- the elements */

static uint64_t length_of(const struct entry *e)
{
    if (!e) return 0;
    return entry_type(e) == TYPE_LIST ? list_len(e) : entry_type(e) == TYPE_SET ? set_len(e) : zset_len(e);
}

/* LIMIT as elements [*from, *to) of n. */
static void limit_of(const struct sorting *s, uint64_t n, uint64_t *from, uint64_t *to)
{
    *from = s->offset <= 0 ? 0 : (uint64_t)s->offset < n ? (uint64_t)s->offset : n;
    uint64_t left = n - *from;
    *to = s->count >= 0 && (uint64_t)s->count < left ? *from + (uint64_t)s->count : n;
}

static void copy_list(struct sorting *s, const struct entry *e, uint64_t from, uint64_t to)
{
    struct list_iter it;
    struct slice element;
    if (from == to) return;
    bool back = s->nosort && s->desc;
    list_iter_init(&it, e, back ? list_len(e) - 1 - from : from, back);
    for (; from < to && list_iter_next(&it, &element); from++) gather_add(&s->elements, element, true);
}

static void copy_set(struct sorting *s, const struct entry *e, uint64_t from, uint64_t to)
{
    struct set_iter it;
    struct slice member;
    set_iter_init(&it, e);
    for (uint64_t i = 0; i < to && set_iter_next(&it, &member); i++)
        if (i >= from) gather_add(&s->elements, member, true);
}

static void copy_zset(struct sorting *s, const struct entry *e, uint64_t from, uint64_t to)
{
    struct zset_iter it;
    struct slice member;
    double score;
    if (from == to) return;
    bool back = s->nosort && s->desc;
    zset_iter_init(&it, e, back ? zset_len(e) - 1 - from : from, back);
    for (; from < to && zset_iter_next(&it, &member, &score); from++) gather_add(&s->elements, member, true);
}

/* Copies what the result can hold: everything if it will be sorted, what LIMIT leaves if not. */
static bool copy_elements(struct exec *x, struct sorting *s)
{
    struct place at;
    exec_find(x, x->argv[1], &at);
    if (!at.e) return true;
    if (!exec_readable(x, &at)) return false;
    enum type t = entry_type(at.e);
    if (t != TYPE_LIST && t != TYPE_SET && t != TYPE_ZSET) {
        reply_error(&x->out, reply_wrongtype);
        return false;
    }
    /* A set has no order of its own; what is stored must not depend on how it lies in memory. */
    if (s->nosort && t == TYPE_SET && s->dest) {
        s->nosort = false;
        s->by = NULL;
        s->alpha = true;
    }
    uint64_t from = 0, to = length_of(at.e);
    if (s->nosort) limit_of(s, to, &from, &to);
    if (t == TYPE_LIST) copy_list(s, at.e, from, to);
    else if (t == TYPE_SET) copy_set(s, at.e, from, to);
    else copy_zset(s, at.e, from, to);
    return true;
}

/* ---- patterns */

/* `->field` at the end of what follows the star; *tail is what stands between. An empty field is none: the arrow belongs to the key. */
static bool split_field(struct slice *tail, struct slice *field)
{
    const char *arrow = tail->n > 2 ? memmem(tail->p, tail->n, "->", 2) : NULL;
    if (!arrow || arrow + 2 == tail->p + tail->n) return false;
    *field = slice_of(arrow + 2, (size_t)(tail->p + tail->n - arrow - 2));
    tail->n = (size_t)(arrow - tail->p);
    return true;
}

/* The value that a pattern names for an element; false: there is none. Borrowed until the next look-up. */
static bool look_up(struct exec *x, struct sorting *s, struct slice pattern, struct slice element, struct slice *value)
{
    struct slice field, tail;
    struct place at;
    if (slice_eq(pattern, SLICE("#"))) {
        *value = element;
        return true;
    }
    if (!names_a_key(pattern)) return false;
    const char *star = memchr(pattern.p, '*', pattern.n);
    tail = slice_of(star + 1, (size_t)(pattern.p + pattern.n - star - 1));
    bool of_hash = split_field(&tail, &field);
    s->text.len = 0;
    buf_add(&s->text, pattern.p, (size_t)(star - pattern.p));
    buf_add_slice(&s->text, element);
    buf_add_slice(&s->text, tail);
    exec_find(x, buf_slice(&s->text), &at);
    if (!at.e || entry_type(at.e) != (of_hash ? TYPE_HASH : TYPE_STRING)) return false;
    if (unlikely(chill_is_cold(at.e))) {
        s->unreadable = true;
        return false;
    }
    if (of_hash) return hash_get(at.e, field, value);
    *value = entry_value(at.e);
    return true;
}

/* ---- sorting */

/* As strtod reads it, all of it; nothing at all is 0. */
static bool score_of(struct sorting *s, struct slice text, double *score)
{
    char *end;
    s->text.len = 0;
    buf_add_slice(&s->text, text);
    buf_add_byte(&s->text, 0);
    errno = 0;
    *score = strtod(s->text.p, &end);
    return end == s->text.p + text.n && errno != ERANGE && !isnan(*score);
}

/* Fills in what each element is compared by; false: a score is no number. */
static bool weigh(struct exec *x, struct sorting *s)
{
    bool ok = true;
    for (uint32_t i = 0; i < s->elements.n; i++) {
        struct item *item = &s->items[i];
        struct slice value = item->element;
        if (s->by && !look_up(x, s, *s->by, item->element, &value)) continue;
        if (!s->alpha) {
            ok &= score_of(s, value, &item->score);
        } else if (s->by) {
            gather_add(&s->values, value, true);
            item->by = s->values.items[s->values.n - 1];
        } else {
            item->by = value;
        }
    }
    return ok;
}

static int compare_by(const struct item *a, const struct item *b, const struct sorting *s)
{
    if (!s->alpha) {
        if (a->score != b->score) return a->score < b->score ? -1 : 1;
        return slice_cmp(a->element, b->element);
    }
    if (!a->by.p || !b->by.p) return (a->by.p != NULL) - (b->by.p != NULL);
    return slice_cmp(a->by, b->by);
}

static int compare(const void *pa, const void *pb, void *ctx)
{
    const struct sorting *s = ctx;
    const struct item *a = pa, *b = pb;
    int d = compare_by(a, b, s);
    if (d) return s->desc ? -d : d;
    return a->at < b->at ? -1 : a->at > b->at;
}

static bool sort_items(struct exec *x, struct sorting *s)
{
    s->items = mem_zalloc((s->elements.n + 1) * sizeof *s->items);
    for (uint32_t i = 0; i < s->elements.n; i++) s->items[i] = (struct item){.element = s->elements.items[i], .at = i};
    if (s->nosort) return true;
    if (!weigh(x, s)) {
        reply_error(&x->out, "ERR One or more scores can't be converted into double");
        return false;
    }
    if (s->unreadable) {
        exec_unreadable(x);
        return false;
    }
    qsort_r(s->items, s->elements.n, sizeof *s->items, compare, s);
    return true;
}

/* ---- the result: each element, or what each GET finds for it */

static void answer(struct exec *x, struct sorting *s, uint64_t from, uint64_t to)
{
    size_t reply_at = x->out.out->len;
    reply_array(&x->out, (to - from) * (s->n_gets ? s->n_gets : 1));
    for (uint64_t i = from; i < to; i++) {
        struct slice element = s->items[i].element, value;
        if (s->n_gets == 0) reply_bulk(&x->out, element);
        for (uint32_t g = 0; g < s->n_gets; g++) {
            if (look_up(x, s, *s->gets[g], element, &value)) reply_bulk(&x->out, value);
            else reply_null(&x->out);
        }
    }
    if (likely(!s->unreadable)) return;
    x->out.out->len = reply_at;
    exec_unreadable(x);
}

/* In a list there is no nil: what GET does not find is stored as the empty string. */
static void store(struct exec *x, struct sorting *s, uint64_t from, uint64_t to)
{
    struct gather list;
    struct place at;
    gather_init(&list, 0);
    for (uint64_t i = from; i < to; i++) {
        struct slice element = s->items[i].element, value;
        if (s->n_gets == 0) gather_add(&list, element, false);
        for (uint32_t g = 0; g < s->n_gets; g++)
            gather_add(&list, look_up(x, s, *s->gets[g], element, &value) ? value : SLICE(""), true);
    }
    if (s->unreadable) {
        exec_unreadable(x);
        gather_fini(&list);
        return;
    }
    exec_peek(x, *s->dest, &at);
    bool was_there = at.e;
    if (was_there) exec_del(x, &at);
    if (list.n > 0) {
        exec_apply(x, &(struct op){.kind = OP_PUSH_TAIL, .items = list.items, .n_items = list.n}, &at);
        exec_notify(x, NOTIFY_LIST, "sortstore", *s->dest);
    } else if (was_there) {
        exec_notify(x, NOTIFY_GENERIC, "del", *s->dest);
    }
    reply_int(&x->out, list.n);
    gather_fini(&list);
}

static void sort(struct exec *x)
{
    struct sorting s = {.count = -1, .gets = mem_alloc(x->argc * sizeof *s.gets)};
    gather_init(&s.elements, 0);
    gather_init(&s.values, 0);
    if (read_options(x, &s) && copy_elements(x, &s) && sort_items(x, &s)) {
        uint64_t from = 0, to = s.elements.n;
        if (!s.nosort) limit_of(&s, to, &from, &to);
        if (s.dest) store(x, &s, from, to);
        else answer(x, &s, from, to);
    }
    gather_fini(&s.elements);
    gather_fini(&s.values);
    buf_fini(&s.text);
    mem_free(s.items);
    mem_free(s.gets);
}

static const struct command rows[] = {
    {"sort", sort, -2, CLASS_KEYED, CMD_WRITE | CMD_DENYOOM | CMD_MOVABLE_KEYS, 1, 1, 1, .keys = sort_keys, .needs_all = sort_needs_all,
     .group = "generic", .since = "1.0.0", .summary = "Sorts the elements in a list, a set, or a sorted set, optionally storing the result.",
     .args = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA] [STORE destination]"},
    {"sort_ro", sort, -2, CLASS_KEYED, CMD_READONLY, 1, 1, 1, .needs_all = sort_needs_all, .group = "generic", .since = "7.0.0",
     .summary = "Returns the sorted elements of a list, a set, or a sorted set.",
     .args = "key [BY pattern] [LIMIT offset count] [GET pattern [GET pattern ...]] [ASC | DESC] [ALPHA]"},
};
const struct command_family sort_family = COMMAND_FAMILY(rows);
